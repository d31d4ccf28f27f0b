"""Canaries in one private training: plan them, make them, score them, and test the stated ε."""
