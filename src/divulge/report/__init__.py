"""Reports turn the contents of a run into what people read: summary, figures, page, comment."""
