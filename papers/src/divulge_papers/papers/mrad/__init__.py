"""Reproduce MRAD: membership of records of which only some features are known."""
