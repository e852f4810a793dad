"""The routes of share types."""
