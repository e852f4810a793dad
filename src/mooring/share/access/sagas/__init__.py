"""The sagas of access rules."""
