"""Python itself."""
