"""The REST API of the compute service."""
