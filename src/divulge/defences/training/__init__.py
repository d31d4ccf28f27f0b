"""Defences that change how a model is trained."""
