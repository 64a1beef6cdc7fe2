"""Values and rules: no I/O, no clock of its own, no asyncio but the pauses of wait_out."""
