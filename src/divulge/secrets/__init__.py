"""The secrets that audits are about: one object each, and one attempt of an attack at it."""
