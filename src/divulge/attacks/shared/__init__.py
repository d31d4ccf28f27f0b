"""What several attacks have in common."""
