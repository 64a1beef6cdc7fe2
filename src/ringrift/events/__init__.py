"""The vocabulary of what can have happened: one module per domain, one catalog over them."""
