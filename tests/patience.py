"""How long tests wait before they take something for stuck."""

PATIENCE = 1800.0
"""Seconds; far more than anything takes on a busy machine, for this is no measure of speed."""
