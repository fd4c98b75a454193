"""Measurements: ratios against floors taken in the same run. Absolute times are noise."""
