"""Tables of the placement service."""
