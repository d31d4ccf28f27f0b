"""Defences that change what clients send."""
