"""The loops of snapshots."""
