"""Breakthrough: an own game of about 60 plies, in numpy, as a workload of RingRift."""
