"""Hosts: services, hypervisors, zones, guests."""
