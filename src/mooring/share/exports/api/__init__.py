"""The routes of export locations."""
