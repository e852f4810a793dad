"""Volumes that are offered to another project."""
