"""The image service: what guests boot from, kept as files in one directory."""
