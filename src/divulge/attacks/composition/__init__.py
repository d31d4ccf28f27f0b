"""Attacks that infer what share of each class a client holds."""
