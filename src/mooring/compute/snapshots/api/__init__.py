"""The routes of snapshots."""
