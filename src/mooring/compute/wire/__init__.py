"""What the bodies and queries of all features have in common."""
