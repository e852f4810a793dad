"""Flavors."""
