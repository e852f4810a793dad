"""The routes of wire."""
