"""The routes of uploads."""
