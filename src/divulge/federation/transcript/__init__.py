"""Write and read transcripts: files of all that a server sent and received."""
