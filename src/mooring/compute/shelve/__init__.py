"""Servers that are put away: their room is given back, and their volumes wait for them."""
