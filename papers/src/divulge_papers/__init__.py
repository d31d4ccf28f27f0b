"""Reproduce published tables: measure their figures again and compare."""
