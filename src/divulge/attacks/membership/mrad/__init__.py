"""MRAD: membership of a record of which only some features are known."""
