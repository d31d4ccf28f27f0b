"""Plan shadow models, train them, and store their predictions."""
