"""HTTP/1.1 on asyncio streams, for model services and MCP servers alike."""
