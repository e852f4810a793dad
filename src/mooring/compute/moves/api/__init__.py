"""The routes of moves."""
