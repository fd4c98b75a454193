"""Read, Write, Edit and what they share."""
