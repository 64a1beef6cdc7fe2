"""The same code under a simulated clock, network, disk and fleet."""
