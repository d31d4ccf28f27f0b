"""What attacks with shadow models find, by how many of these there are: see its page."""
