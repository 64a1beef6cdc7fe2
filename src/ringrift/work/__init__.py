"""Doing one thing once: the desk that hands out jobs under leases, and the runner that does them."""
