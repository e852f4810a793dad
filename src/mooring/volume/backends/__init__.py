"""Hosts with storage, and their pools."""
