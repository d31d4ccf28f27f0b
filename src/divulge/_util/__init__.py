"""What every room uses and nothing of the field: files, imports, progress, random streams, TOML."""
