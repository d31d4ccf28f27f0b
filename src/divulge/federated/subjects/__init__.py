"""What an audit of a federation was about, as the run folder keeps it: one file a secret."""
