"""Compare defences: train with each on the same records, and audit all in the same way."""
