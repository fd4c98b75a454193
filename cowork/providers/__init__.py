"""Models behind wire formats: a codec each, over a transport that moves bytes."""
