"""The saga engine: every operation ends, finished or undone."""
