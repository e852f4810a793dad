"""The sagas of shelve."""
