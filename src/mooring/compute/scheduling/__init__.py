"""Choosing a host for a server."""
