"""Share types."""
