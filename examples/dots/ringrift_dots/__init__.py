"""Dots and Boxes: an own game of 40 plies, in numpy, as a workload of RingRift."""
