"""Snapshots of volumes that a guest uses."""
