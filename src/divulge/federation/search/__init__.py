"""Simulate federated rankers of search results."""
