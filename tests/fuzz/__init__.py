"""Requests that nobody would send on purpose."""
