"""The HTTP/1.1 engine of the wire: plain asyncio protocols around the parser httptools, on one port."""
