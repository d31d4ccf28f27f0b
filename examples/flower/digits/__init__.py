"""A Flower app: a small network learns handwritten digits from clients of differing class mixes."""
