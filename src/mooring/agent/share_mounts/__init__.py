"""The shares that this host mounts for its guests, by whatever their protocols take."""
