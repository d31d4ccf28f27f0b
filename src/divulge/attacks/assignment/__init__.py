"""Attacks that infer which client of a federation trained on a record."""
