"""DP-SGD: clipped and noisy steps, and what they promise."""
