"""Export locations."""
