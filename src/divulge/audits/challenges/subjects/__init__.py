"""What is asked about a federation, and how its run folder keeps it."""
