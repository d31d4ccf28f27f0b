"""Transcripts: what a server sent and received, in files."""
