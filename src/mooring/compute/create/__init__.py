"""A server is made."""
