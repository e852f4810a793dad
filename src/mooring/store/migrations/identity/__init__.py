"""The revisions of the tables of `identity`."""
