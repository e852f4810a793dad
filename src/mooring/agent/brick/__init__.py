"""Mounts by os-brick, in a helper process: nothing in here is imported by the agent itself."""
