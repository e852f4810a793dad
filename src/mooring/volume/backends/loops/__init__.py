"""The loops of backends."""
