"""Attachments, and the calls of before them."""
