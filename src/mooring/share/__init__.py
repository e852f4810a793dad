"""The share service: shared file systems behind OpenStack's API of that name (Manila v2)."""
