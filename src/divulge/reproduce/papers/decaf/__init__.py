"""Class shares from a client's update (decaf)."""
