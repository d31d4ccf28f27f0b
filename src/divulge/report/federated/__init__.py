"""The report of an audit of a federation: one page, and what it says of each kind of secret."""
