"""Search for the most accurate model under a ceiling on leakage, and audit it on fresh records."""
