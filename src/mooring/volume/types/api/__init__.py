"""The routes of types."""
