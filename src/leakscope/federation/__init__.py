"""Federations: simulated or recorded, and what their server sees of them."""
