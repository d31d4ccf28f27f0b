"""From settings to what an attack on a federation is carried out on: one file a secret."""
