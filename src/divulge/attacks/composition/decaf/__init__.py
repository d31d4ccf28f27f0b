"""Decaf: infers class shares from an update."""
