"""From what an audit found to what people read: a summary, figures, a page, a comment."""
