"""The routes of reimage."""
