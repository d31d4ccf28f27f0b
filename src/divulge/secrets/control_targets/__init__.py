"""Targets that stand in for the audited model in a control, and what they know of neighbours."""
