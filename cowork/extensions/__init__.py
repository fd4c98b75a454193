"""What people add with files: agents, skills, commands, hooks and plugins, found, checked and listed in one way."""
