"""Text with structure: Markdown as it streams, and diffs."""
