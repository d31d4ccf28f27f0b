"""Targets: one adapter per way to reach a model, and wrappers around any of them."""
