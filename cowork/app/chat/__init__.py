"""The chat joined to the application: its host, its slash commands and what they show."""
