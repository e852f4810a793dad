"""The routes of servers."""
