"""The routes of the volume service."""
