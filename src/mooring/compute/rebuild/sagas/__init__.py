"""The sagas of rebuild."""
