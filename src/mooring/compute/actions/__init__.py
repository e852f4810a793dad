"""What a server went through: actions, events, faults, notices."""
