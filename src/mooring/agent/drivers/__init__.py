"""Where volumes lie: one driver for each kind of storage."""
