"""Moving files: who holds what, where copies are missing, and bringing them there."""
