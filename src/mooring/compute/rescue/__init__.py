"""A server is rescued: its guest boots from another disk, until it has its own again."""
