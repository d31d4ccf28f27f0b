"""Reproduce DAP: training against a frozen membership discriminator."""
