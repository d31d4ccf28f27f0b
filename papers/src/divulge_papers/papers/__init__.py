"""Hold one package a paper: its tables, its data, and the functions that measure a row."""
