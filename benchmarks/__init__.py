"""Measurements: calibration, start-up, and the recorder beside its peer."""
