"""The sagas of create."""
