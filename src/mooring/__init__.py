"""Mooring: an OpenStack-compatible cloud in which every operation ends."""
