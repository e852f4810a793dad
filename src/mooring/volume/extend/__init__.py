"""A volume grows."""
