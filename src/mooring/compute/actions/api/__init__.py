"""The routes of actions."""
