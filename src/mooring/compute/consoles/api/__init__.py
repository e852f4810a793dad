"""The routes of serial consoles, and the door by which one is used."""
