"""The sagas of delete."""
