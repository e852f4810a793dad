"""The sagas of rescue."""
