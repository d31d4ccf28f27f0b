"""Shadow models: planned, trained, stored."""
