"""What every attack must do, tried on small games with a known truth; one file a secret."""
