"""A server is deleted."""
