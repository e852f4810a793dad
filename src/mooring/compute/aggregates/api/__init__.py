"""The routes of aggregates."""
