"""How a batch of models is trained at once."""
