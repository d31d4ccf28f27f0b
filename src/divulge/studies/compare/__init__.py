"""Defences compared: models trained with each, audited by the same attacks."""
