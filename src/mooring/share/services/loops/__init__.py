"""The loops of pools."""
