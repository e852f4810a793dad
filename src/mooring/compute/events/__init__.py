"""What other services tell."""
