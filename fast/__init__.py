"""The distribution divulge-fast: its package is in ``src``, its tests are in ``tests``."""
