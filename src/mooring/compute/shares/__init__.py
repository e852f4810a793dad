"""Shares of servers: attached, mounted by hosts, given to guests by virtiofs."""
