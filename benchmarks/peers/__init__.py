"""The same work by leakscope and by the tools people would pick instead."""
