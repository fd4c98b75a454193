"""One module a wire format: our blocks as a request body, stream events as our blocks."""
