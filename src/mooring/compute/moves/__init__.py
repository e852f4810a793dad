"""Servers that go from one host to another."""
