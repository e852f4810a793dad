"""What clients write and read."""
