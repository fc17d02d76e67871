"""Files that are run by a stack's Python; they import nothing of this package."""
