"""Challenges about federations are posed here, as sections of ``audit.toml`` describe them."""
