"""The routes of snapshots of shares."""
