"""Ways to move the bytes of a blob between two nodes, each behind one port."""
