"""Benchmarks: divulge and a peer, side by side in one process. See docs/results/benchmarks.md."""
