"""DP-SGD: its training loop with clipping and noise, and its privacy accounting."""
