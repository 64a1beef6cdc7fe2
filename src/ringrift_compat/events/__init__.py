"""The documented event router, its buses, queue and handlers: views of the log of the embedded node."""
