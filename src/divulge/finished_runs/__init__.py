"""A finished run of any kind: its folder, its head, its verdict, and what a gate makes of it."""
