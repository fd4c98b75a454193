"""The terminal itself: reading keys, painting frames, title and clipboard."""
