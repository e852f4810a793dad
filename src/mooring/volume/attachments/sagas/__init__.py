"""The sagas of attachments."""
