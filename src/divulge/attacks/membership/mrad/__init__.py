"""MRAD attacks the membership of records of which only some features are known."""
