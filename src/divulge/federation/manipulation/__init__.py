"""Manipulate the items that a malicious server shows its clients."""
