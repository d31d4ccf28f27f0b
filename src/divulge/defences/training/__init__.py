"""Defences that are trained in."""
