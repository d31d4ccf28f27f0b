"""Which client trained on a record, across privacy tiers (nist-stacking)."""
