"""ClusterLiRA: a likelihood ratio from mixtures, without shadow models."""
