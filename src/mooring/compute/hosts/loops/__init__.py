"""The loops of hosts."""
