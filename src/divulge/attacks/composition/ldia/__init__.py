"""LDIA: infers class shares from an update by a network."""
