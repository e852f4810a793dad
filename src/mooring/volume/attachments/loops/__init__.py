"""The loops of attachments."""
