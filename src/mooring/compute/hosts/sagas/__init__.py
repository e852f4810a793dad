"""The sagas of hosts."""
