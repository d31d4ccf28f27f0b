"""A package a paper: its tables, its data and what measures a row."""
