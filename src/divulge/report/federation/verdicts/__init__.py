"""Whether a federation leaks: one file a secret."""
