"""Snapshots of shares."""
