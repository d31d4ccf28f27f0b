"""Stacking: seven base classifiers under a meta-classifier."""
