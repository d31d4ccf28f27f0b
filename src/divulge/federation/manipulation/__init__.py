"""What a malicious server does to the items that it shows."""
