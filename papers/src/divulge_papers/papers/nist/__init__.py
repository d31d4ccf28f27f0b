"""Reproduce nist-stacking: which client trained on a record, across privacy tiers."""
