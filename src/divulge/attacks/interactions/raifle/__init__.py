"""RAIFLE: the interactions that explain an update."""
