"""The sagas of uploads."""
