"""User messages."""
