"""The operations on servers that take longer than one transaction."""
