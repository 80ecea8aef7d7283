"""Mathematics that at least two methods share."""
