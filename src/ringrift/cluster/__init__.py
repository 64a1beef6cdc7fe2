"""Who is here, and who does what."""
