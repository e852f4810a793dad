"""A server is rescued: its guest boots from another disk, until it is unrescued."""
