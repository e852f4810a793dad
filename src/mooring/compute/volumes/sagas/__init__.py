"""The sagas of volumes."""
