"""A server is rebuilt."""
