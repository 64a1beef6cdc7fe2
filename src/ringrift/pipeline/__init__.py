"""Learning: the loop of each variant as one pure function, and what it remembers."""
