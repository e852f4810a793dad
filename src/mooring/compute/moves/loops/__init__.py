"""What runs beside the requests of moves."""
