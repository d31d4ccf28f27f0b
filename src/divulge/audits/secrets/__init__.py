"""The secrets that audits are about: one object each, with all that depends on which it is."""
