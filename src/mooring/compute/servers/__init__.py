"""Servers: shown, listed, changed."""
