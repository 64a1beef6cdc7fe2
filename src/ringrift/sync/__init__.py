"""Moving files: which node holds which blob, where copies are missing, and bringing them there."""
