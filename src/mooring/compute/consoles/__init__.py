"""Serial consoles of servers: who may open one, and the way there."""
