"""Values and rules: no I/O, no asyncio, no clock of its own."""
