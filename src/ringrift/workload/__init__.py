"""What a game must offer to be learnt, and where games are found."""
