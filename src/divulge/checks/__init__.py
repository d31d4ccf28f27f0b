"""Questions about an audit's records, answered before any attack runs."""
