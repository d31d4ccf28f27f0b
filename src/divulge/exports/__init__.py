"""What reads a finished run: files for continuous integration and trackers, evidence, history."""
