"""The revisions of the tables of `compute`."""
