"""The placement service: who gives resources, who holds them, and where a claim would fit."""
