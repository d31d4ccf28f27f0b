"""Whether attacks on a federation find more than guesses that know nothing: a file a secret."""
