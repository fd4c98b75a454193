"""What may run: rules, shell commands, paths, trust and the sandbox."""
