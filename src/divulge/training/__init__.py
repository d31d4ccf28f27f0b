"""Training models of the target's kind."""
