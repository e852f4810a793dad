"""Tables of the image service."""
