"""What the bodies, queries and views of all features have in common."""
