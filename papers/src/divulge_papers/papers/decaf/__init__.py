"""Reproduce Decaf: class shares inferred from a client's update."""
