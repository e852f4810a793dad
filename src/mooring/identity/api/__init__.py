"""What identity answers, one file for each kind of resource."""
