"""Routes of server groups."""
