"""Pages about federations: one file a secret."""
