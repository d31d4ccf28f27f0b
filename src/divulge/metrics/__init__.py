"""Pure functions from arrays to estimates. A HIGHER score means MORE LIKELY A MEMBER."""
