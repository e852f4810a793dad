"""A server is started, stopped, rebooted; its state is reset."""
