"""The routes of quotas."""
