"""The same work by divulge and by the tools people would pick instead."""
