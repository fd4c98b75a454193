"""The chat in the terminal: events in, keys out, everything inline in the native scrollback."""
