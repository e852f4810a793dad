"""What Mooring costs, beside its budgets: `make bench`."""
