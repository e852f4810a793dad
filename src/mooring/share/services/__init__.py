"""Pools, and the hosts that offer them."""
