"""Answers that must be JSON, and summaries of a conversation: what is known, put in the form that was asked for."""

from __future__ import annotations

import json
import re
from typing import Any

from cowork.core.blocks import Json

_AT = re.compile(r"`([\w./@+-]+):(\d+)(?:-\d+)?`")


def as_json(answer: str, schema: Json) -> str:
    """The answer as a value of the schema: places go to paths and lines, the text to whatever takes text."""
    places = [(m[1], int(m[2])) for m in _AT.finditer(answer)]
    return json.dumps(_value(schema, "", answer, places, 0), ensure_ascii=False)


def _value(schema: Any, name: str, answer: str, places: list[tuple[str, int]], depth: int) -> Any:
    if not isinstance(schema, dict) or depth > 6:
        return answer
    if "const" in schema:
        return schema["const"]
    if options := schema.get("enum"):
        return next((o for o in options if isinstance(o, str) and o.lower() in answer.lower()), options[0])
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return _value(schema[key][0], name, answer, places, depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    match kind or ("object" if "properties" in schema else "string"):
        case "object":
            inner = schema.get("properties") or {}
            required = set(schema.get("required") or inner)
            return {
                key: _value(part, key, answer, places, depth + 1)
                for key, part in inner.items()
                if key in required or places or not isinstance(part, dict)
            }
        case "array":
            each = places or [("", 0)]
            least = int(schema.get("minItems") or 0)
            items = [_value(schema.get("items") or {}, name, answer, [p], depth + 1) for p in each[:20]]
            return items if places or least else []
        case "integer" | "number":
            number = re.search(r"(?<![\w.:])(\d[\d,]*)", answer)
            if places and re.search(r"line|number|offset", name, re.IGNORECASE):
                return places[0][1]
            return int(number[1].replace(",", "")) if number else (places[0][1] if places else 0)
        case "boolean":
            return not re.search(r"\b(?:nothing|none|not|no)\b", answer[:200])
        case "null":
            return None
        case _:
            if places and re.search(r"file|path|location|where", name, re.IGNORECASE):
                return f"{places[0][0]}:{places[0][1]}" if re.search(r"location|where", name) else places[0][0]
            return answer


def summary(conversation: str) -> str:
    """The memory of a conversation that is about to be shortened: requests, answers, places."""
    asked = re.findall(r"^USER: (.+)$", conversation, re.MULTILINE)
    told = re.findall(r"^AGENT: (.+)$", conversation, re.MULTILINE)
    changed = re.findall(r'^CALL (?:Edit|MultiEdit|Write) .*?"file_path": "([^"]+)"', conversation, re.MULTILINE)
    places = list(dict.fromkeys(m[0].strip("`") for m in _AT.finditer(conversation)))
    parts = ["Requests:\n" + "\n".join(f"- {text[:300]}" for text in asked[-20:])] if asked else []
    if told:
        parts.append("Answers:\n" + "\n".join(f"- {text[:300]}" for text in told[-20:]))
    if changed:
        parts.append("Files changed: " + ", ".join(dict.fromkeys(changed)))
    if places:
        parts.append("Places: " + ", ".join(places[:40]))
    return "\n\n".join(parts) or "Nothing of note was said."
