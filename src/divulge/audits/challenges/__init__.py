"""The four secrets: what an attack is given, and what its guess is held against."""
