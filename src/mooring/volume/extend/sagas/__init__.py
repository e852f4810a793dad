"""The sagas of extend."""
