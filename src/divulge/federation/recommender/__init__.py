"""Federations of recommenders."""
