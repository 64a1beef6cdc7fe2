"""Where jobs run: the port, and child processes as its first engine."""
