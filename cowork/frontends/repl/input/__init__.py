"""What the person types: the input line, completion, dialogs, lists and keys."""
