"""The revisions of the tables of `volume`."""
