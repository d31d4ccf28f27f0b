"""Audits in which every model of a fleet is the target in turn."""
