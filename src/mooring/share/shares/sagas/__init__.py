"""The sagas of shares."""
