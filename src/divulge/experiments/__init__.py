"""Published tables, measured again: one file each, and what all of them need."""
