"""The routes of hosts."""
