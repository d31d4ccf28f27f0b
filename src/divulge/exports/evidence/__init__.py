"""Packs of evidence: a finished run as one file to hand in, signed by whoever audited."""
