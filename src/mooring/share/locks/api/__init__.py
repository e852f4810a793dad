"""The routes of resource locks."""
