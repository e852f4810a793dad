"""Shares in the pools of a host, one module for each driver."""
