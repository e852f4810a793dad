"""Images that are made of volumes."""
