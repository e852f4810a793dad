"""Tables of the fleet."""
