"""How services reach each other, and what each looks like to its callers."""
