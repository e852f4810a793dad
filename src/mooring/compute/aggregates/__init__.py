"""Aggregates: hosts that belong together, their metadata, and the zones that they make."""
