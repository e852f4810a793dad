"""The sagas of reimage."""
