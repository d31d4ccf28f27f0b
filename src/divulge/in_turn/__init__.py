"""Leave-one-out: train models alike, and audit each in turn against the others."""
