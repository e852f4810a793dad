"""The revisions of the tables of `share`."""
