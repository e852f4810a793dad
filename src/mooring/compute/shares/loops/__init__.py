"""The loops of shares that servers have."""
