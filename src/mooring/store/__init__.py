"""The database is the truth: one SQLite file, or one PostgreSQL schema, per service."""
