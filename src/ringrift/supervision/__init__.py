"""Keeping alive: what a daemon is, when it is started again, when it is given up."""
