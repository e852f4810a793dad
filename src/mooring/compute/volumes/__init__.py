"""A server's volumes: attached, detached, extended, released."""
