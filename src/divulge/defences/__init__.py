"""Ways to train, answer and send updates so that less is given away."""
