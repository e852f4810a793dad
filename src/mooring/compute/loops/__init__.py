"""What the compute service does on its own account."""
