"""Reproduce RAIFLE: interactions inferred from a client's update."""
