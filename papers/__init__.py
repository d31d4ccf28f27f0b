"""The distribution divulge-papers: its package is in ``src``, its tests are in ``tests``."""
