"""Federations of rankers of search results."""
