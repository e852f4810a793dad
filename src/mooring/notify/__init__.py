"""Notifications: outbox rows written with the step they tell of, and whoever hands them on."""
