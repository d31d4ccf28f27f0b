"""Simulate federated recommenders."""
