"""Engine cores and their clients."""
