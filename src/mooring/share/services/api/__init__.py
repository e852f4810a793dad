"""The routes of pools, and the hosts that offer them."""
