"""What the chat draws: panels, tool calls, Markdown, diffs, the status line, the viewer."""
