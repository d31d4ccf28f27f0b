"""LiRA on mixtures: no shadow models."""
