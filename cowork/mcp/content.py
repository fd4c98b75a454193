"""Turns what servers send into something a model can read: names, descriptions, schemas, and the blocks of a result."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

from cowork.core.blocks import Image, Json, as_object
from cowork.core.format import first_sentence
from cowork.core.frozen import frozen
from cowork.core.hygiene import visible, visible_line

MOST_DESCRIPTION = 2_048  # bytes, of a tool's description and of a server's instructions
_MOST_SCHEMA = 64 * 1024
_MOST_NAME = 64
_MOST_IMAGE = 5 << 20  # bytes of base64
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_COMBINED = ("anyOf", "oneOf", "allOf")


def tool_name(server: str, tool: str) -> str:
    """`mcp__server__tool`, in the letters and the length that model services take."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", f"mcp__{server}__{tool}")
    if plain == f"mcp__{server}__{tool}" and len(plain) <= _MOST_NAME:
        return plain
    mark = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{plain[: _MOST_NAME - 7]}_{mark}"


def cut_text(text: object) -> str:
    """A server's words: nothing that steers a terminal or hides, and no more than 2 KB."""
    clean = visible(str(text or "")[: 2 * MOST_DESCRIPTION]).strip()
    raw = clean.encode("utf-8", "replace")
    return clean if len(raw) <= MOST_DESCRIPTION else raw[: MOST_DESCRIPTION - 3].decode("utf-8", "ignore") + "…"


def schema_of(tool: Json) -> Json:
    """Its input schema as model services take it: an object, not too large, without a choice at the root."""
    schema = tool.get("inputSchema")
    try:
        size = len(json.dumps(schema))
    except (ValueError, RecursionError):
        size = _MOST_SCHEMA + 1
    if not isinstance(schema, dict) or size > _MOST_SCHEMA:
        return {"type": "object", "properties": {}, "description": "Its schema is too large to show."}
    flat = {key: value for key, value in schema.items() if key not in _COMBINED}
    choices = {key: schema[key] for key in _COMBINED if key in schema}
    properties: Json = {}
    for part in [part for key in choices for part in _list_in(choices, key)][::-1]:  # the first that has a name counts
        properties |= as_object(as_object(part).get("properties"))
    properties |= as_object(schema.get("properties"))
    if choices:
        said = json.dumps(choices)[:500]
        flat["description"] = f"{flat.get('description', '')} The arguments must satisfy {said}".strip()
    flat["type"], flat["properties"] = "object", properties
    if not isinstance(flat.get("required", []), list):
        del flat["required"]
    return flat


@frozen
class ServerContent:
    """A result or a resource as a model can read it."""

    text: str
    images: tuple[Image, ...] = ()
    failed: bool = False
    structured: Any = None


def result_content(result: Json) -> ServerContent:
    """The result of a call, as text and images for the model."""
    texts, images = _blocks(_list_in(result, "content"))
    structured = result.get("structuredContent")
    if structured is not None and not texts:
        texts.append(json.dumps(structured, ensure_ascii=False, indent=1))
    return ServerContent("\n\n".join(texts), tuple(images), result.get("isError") is True, structured)


def resource_content(result: Json) -> ServerContent:
    """What a resource holds."""
    texts, images = _blocks({"type": "resource", "resource": part} for part in _list_in(result, "contents"))
    return ServerContent("\n\n".join(texts), tuple(images))


def prompt_text(result: Json) -> str:
    """The messages of a prompt as one text."""
    found = []
    for message in filter(None, map(as_object, _list_in(result, "messages"))):
        texts, _ = _blocks([message.get("content")])
        who = "" if message.get("role") == "user" else f"({visible_line(str(message.get('role')))}) "
        found += [who + text for text in texts]
    return "\n\n".join(found)


def _list_in(result: Json, key: str) -> list[Any]:
    found = result.get(key)
    return found if isinstance(found, list) else []


def _blocks(content: Iterable[Any]) -> tuple[list[str], list[Image]]:
    texts: list[str] = []
    images: list[Image] = []
    for block in filter(None, map(as_object, content)):
        match block.get("type"):
            case "text":
                texts.append(str(block.get("text", "")))
            case "image":
                _image(block.get("mimeType"), block.get("data"), texts, images)
            case "resource":
                _resource(as_object(block.get("resource")), texts, images)
            case "resource_link":
                about = first_sentence(str(block.get("description") or block.get("name") or ""), 80)
                texts.append(f"[resource {visible_line(str(block.get('uri', '')))}{f': {about}' if about else ''}]")
            case other:
                texts.append(f"[{visible_line(str(other))[:40]} content, which cannot be shown]")
    return texts, images


def _resource(resource: Json, texts: list[str], images: list[Image]) -> None:
    uri, kind = visible_line(str(resource.get("uri", ""))), str(resource.get("mimeType", ""))
    if isinstance(resource.get("text"), str):
        texts.append(f"[resource {uri}]\n{resource['text']}")
    elif kind in _IMAGES:
        _image(kind, resource.get("blob"), texts, images)
    else:
        size = len(str(resource.get("blob", ""))) * 3 // 4
        texts.append(f"[resource {uri}: {kind or 'binary'}, about {size:,} bytes, not shown]")


def _image(kind: Any, data: Any, texts: list[str], images: list[Image]) -> None:
    why = ""
    if kind not in _IMAGES:
        why = f"of the type {visible_line(str(kind))[:40]}"
    elif not isinstance(data, str):
        why = "without data"
    elif len(data) > _MOST_IMAGE:
        why = "too large"
    else:
        try:
            base64.b64decode(data, validate=True)
            images.append(Image(kind, data))
        except ValueError:
            why = "damaged"
    if why:
        texts.append(f"[an image {why}, not shown]")
