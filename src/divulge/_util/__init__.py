"""Helpers for every package, without privacy auditing: files, imports, progress, seeds, TOML."""
