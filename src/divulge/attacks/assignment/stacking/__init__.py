"""Stacking: seven estimators under a meta-classifier."""
