"""A classifier stacked on what shadow models say."""
