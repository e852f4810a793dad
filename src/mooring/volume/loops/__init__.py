"""What the volume service does on its own: looking at hosts, and settling what nobody ends."""
