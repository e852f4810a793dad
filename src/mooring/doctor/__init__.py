"""The doctor compares what the databases say with each other and with what is on the hosts."""
