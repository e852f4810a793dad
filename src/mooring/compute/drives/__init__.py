"""Config drives: what servers' guests are told without a network."""
