"""Fenced, idempotent calls: one set of rules for agents and services."""
