"""Volumes: made, shown, changed, deleted."""
