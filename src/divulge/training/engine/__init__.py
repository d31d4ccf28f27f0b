"""Train a batch of PyTorch models: one by one, in processes, or stacked."""
