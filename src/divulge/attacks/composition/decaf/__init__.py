"""Decaf: class shares from an update."""
