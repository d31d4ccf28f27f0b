"""Audits, from settings to a report: of one model, in turn, of a federation, and compared."""
