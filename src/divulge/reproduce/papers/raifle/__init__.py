"""Interactions from a client's update (raifle)."""
