"""Quotas and limits."""
