"""WebSearch: results of the search service that the configuration names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlencode, urlsplit

from cowork.core.errors import ToolError
from cowork.core.ports import ToolRecord, ok
from cowork.tools.base import Param, Tool, ToolContext, tool
from cowork.tools.shell.terminal_text import plain
from cowork.tools.web.fetch import DATA
from cowork.tools.web.http import fetch

BRAVE = "https://api.search.brave.com/res/v1/web/search"
_MOST = 10
_SNIPPET = 300


def web_search(service: str, url: str, key: str) -> Tool:
    """The tool of one run: `service` is searxng or brave, at `url`."""
    address = url or BRAVE
    host = urlsplit(address).hostname or ""
    headers = {"Accept": "application/json", **({"X-Subscription-Token": key} if service == "brave" else {})}
    if service == "searxng":
        address = address.rstrip("/").removesuffix("/search") + "/search"

    @tool("WebSearch", family="fetch", line=lambda args, cwd: str(args["query"]))
    async def run(ctx: ToolContext, query: Annotated[str, Param("What to look for", min_length=1)]) -> ToolRecord:
        asked = {"q": query[:400], **({"format": "json"} if service == "searxng" else {"count": _MOST})}
        found = await fetch(f"{address}?{urlencode(asked)}", private=(host,), headers=headers)
        if found.status != 200 or found.elsewhere:
            raise ToolError("EXECUTION_ERROR", f"The search service at {host} answered {found.status}. {_why(service)}")
        try:
            results = _results(service, json.loads(found.body))
        except (ValueError, TypeError, AttributeError) as error:
            raise ToolError(
                "EXECUTION_ERROR", f"{host} did not answer with results as JSON. {_why(service)}"
            ) from error
        rows = [f"{n}. {r['title']}\n   {r['url']}\n   {r['snippet']}" for n, r in enumerate(results, 1)]
        text = f"Results of {host}. {DATA}\n\n" + "\n".join(rows) if rows else "Nothing was found."
        display = {"kind": "text", "text": "\n".join(rows), "summary": f"{len(results)} results"}
        return ok(text, display=display, query=query, results=results)

    return run


def _results(service: str, answer: Mapping[str, Any]) -> list[dict[str, str]]:
    rows = answer.get("results", ()) if service == "searxng" else (answer.get("web") or {}).get("results", ())
    told = "content" if service == "searxng" else "description"
    return [
        {"title": _line(row.get("title")), "url": _line(row.get("url")), "snippet": _line(row.get(told))[:_SNIPPET]}
        for row in list(rows)[:_MOST]
    ]


def _line(value: object) -> str:
    return " ".join(plain(str(value or "")).split())


def _why(service: str) -> str:
    if service == "searxng":
        return "Is `json` among its search.formats? The user can set [web] search_url."
    return "Is the key right? The user can set [web] search_key_env."
