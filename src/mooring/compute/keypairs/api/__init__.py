"""The routes of keypairs."""
