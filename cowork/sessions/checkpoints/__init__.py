"""The files of a workspace before each prompt, and how a rewind brings them back."""
