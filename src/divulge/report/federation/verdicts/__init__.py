"""The verdict on a federation: one file a secret."""
