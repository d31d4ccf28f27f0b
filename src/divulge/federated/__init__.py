"""Audits of a federation: what each client's updates give away, by the transcript of its server."""
