"""The sagas of power."""
