"""Server groups: members, and where their policies let them be."""
