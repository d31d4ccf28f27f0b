"""Shadow models: trained on random halves, here or on a cluster; what each says is kept."""
