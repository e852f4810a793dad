"""Images are made of servers whose root disk lies on their host."""
