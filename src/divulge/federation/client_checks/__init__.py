"""What a client can check before it sends an update."""
