"""Membership of records of which only some features are known (mrad)."""
