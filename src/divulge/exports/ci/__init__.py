"""What tools of continuous integration read: one file a format, from the same cases."""
