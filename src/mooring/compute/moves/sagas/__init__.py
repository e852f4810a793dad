"""The sagas of moves."""
