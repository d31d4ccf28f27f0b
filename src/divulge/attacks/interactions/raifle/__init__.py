"""RAIFLE: finds the interactions that explain an update."""
