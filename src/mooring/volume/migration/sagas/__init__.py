"""The saga that brings a volume to another pool."""
