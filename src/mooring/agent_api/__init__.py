"""What an agent is asked and what it answers, and the client that asks."""
