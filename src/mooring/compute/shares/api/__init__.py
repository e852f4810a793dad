"""The routes of shares."""
