"""Hosts on other machines: who may join, with which certificate, and where each serves."""
