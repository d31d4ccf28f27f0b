"""Defences that change a model's predictions."""
