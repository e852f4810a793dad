"""Resource locks."""
