"""A volume's content is replaced by an image."""
