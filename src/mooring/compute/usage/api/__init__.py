"""The routes of reports of usage."""
