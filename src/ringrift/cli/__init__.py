"""The command line; only its environment module reads the environment."""
