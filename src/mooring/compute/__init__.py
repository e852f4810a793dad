"""Servers: the compute service (v2.1 API)."""
