"""Tests that a client can run on an update before it sends it."""
