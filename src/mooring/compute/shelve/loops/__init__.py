"""The loops of shelve."""
