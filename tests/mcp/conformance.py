"""A driver for the client scenarios of the conformance suite: does with our client what a scenario asks for.

`make mcp-conformance` runs it; the suite starts it with the address of its server as the last argument.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import aclosing
from typing import Any

from cowork.core.blocks import Json
from cowork.http.client import HttpClient
from cowork.mcp.client import McpClient
from cowork.mcp.http import HttpChannel, fetch
from cowork.mcp.oauth import OAuth
from cowork.mcp.protocol import LEGACY, McpError


class Memory:
    """Tokens for the life of this process."""

    def __init__(self) -> None:
        self.kept: Json = {}

    def get(self) -> Json:
        return self.kept

    def put(self, kept: Json) -> None:
        self.kept = kept


async def browse(url: str) -> None:
    """A person who says yes at once: follows the redirect to where the answer is awaited."""
    async with aclosing(HttpClient(url)) as client:
        there = (await client.send("GET", {})).headers["location"]
    await fetch("GET", there)


async def elicit(params: Json) -> Json:
    """A person who takes every default."""
    fields = (params.get("requestedSchema") or {}).get("properties", {})
    return {"action": "accept", "content": {name: f["default"] for name, f in fields.items() if "default" in f}}


def value_for(schema: Any) -> Any:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return {"integer": 5, "number": 5, "boolean": True, "array": [], "object": {}}.get(str(kind), "test")


async def use(client: McpClient, context: Json) -> None:
    """Call what the scenario names, else every tool once."""
    wanted = context.get("toolCalls")
    tools = await client.tools()
    if isinstance(wanted, list):
        calls = [(call["name"], call.get("arguments", {})) for call in wanted]
        known = {tool["name"] for tool in tools}
        calls = [call for call in calls if call[0] in known]
    else:
        calls = []
        for tool in tools:
            schema = tool["inputSchema"]
            names = schema.get("required") or schema.get("properties", {})
            calls.append((tool["name"], {name: value_for(schema["properties"].get(name)) for name in names}))
    for name, arguments in calls:
        try:
            print(name, json.dumps(await client.call(name, arguments))[:200])
        except McpError as error:
            print(f"{name}: {error}", file=sys.stderr)
    for prompt in await client.listed("prompts"):
        print("prompt", prompt["name"], json.dumps(await client.prompt(prompt["name"], {}))[:200])
    for resource in await client.listed("resources"):
        print("resource", resource["uri"], json.dumps(await client.read(resource["uri"]))[:200])


async def main(url: str) -> int:
    context: Json = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    own = {name: str(context[name]) for name in ("client_id", "client_secret") if name in context}
    own["client_metadata_url"] = "https://conformance-test.local/client-metadata.json"
    auth = OAuth(url, own, Memory(), browse)
    client = McpClient(HttpChannel(url, {}, auth), elicit=elicit, warn=lambda text: print(text, file=sys.stderr))
    try:
        asked = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
        await client.connect("legacy" if asked in LEGACY else "")
        await client.follow()
        await use(client, context)
    finally:
        await client.aclose()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(sys.argv[-1])))
    except McpError as error:
        print(f"refused: {error}", file=sys.stderr)
        sys.exit(1)
