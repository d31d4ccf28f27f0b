"""Training of dense and small convolutional networks in native code, which Numba compiles."""
