"""The verdict of an audited federation: its levels, and the words of each secret."""
