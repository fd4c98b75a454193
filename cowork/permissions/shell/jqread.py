"""jq as a small language: paths and plain functions. jq is a whole one, in which a line can fill any memory.

What multiplies is left out: a `[]` beside a sign or in an object, texts of texts, JSON of JSON. What makes its input
larger at all (an object, a text, a format) may stand in a program once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

_LONGEST = 500
_STRING = r'"[^"\\]*"'
_STEP = rf"(?:\.?\[(?:-?[0-9]{{0,6}}|-?[0-9]{{0,6}}:-?[0-9]{{0,6}}|{_STRING})\]\??|\.(?:[A-Za-z_]\w*|{_STRING})\??)"
_PATH = rf"(?:{_STEP}+|\.)"
_FIELD = r"(?:(?:\.[A-Za-z_]\w*\??)+|\.)"
_VALUE = rf"(?:{_STRING}|-?[0-9]{{1,9}}|true|false|null)"
_FINDS = rf"(?:contains|startswith|endswith|has)\({_VALUE}\)"
_TEST = rf"{_FIELD}(?:\s*(?:==|!=|<=?|>=?)\s*{_VALUE}|\s*\|\s*{_FINDS})?"
_SELECT = rf"select\({_TEST}(?:\s+(?:and|or)\s+{_TEST})*\)"
_NAMES = "keys_unsorted keys length type values add first last sort unique reverse not tonumber to_entries from_entries"
_NAMES += " ascii_downcase ascii_upcase min max empty flatten arrays objects strings numbers"
_BY = rf"(?:sort_by|group_by|unique_by|min_by|max_by|map|del)\({_PATH}\)"
_CALL = (
    rf"(?:{_SELECT}|map\({_SELECT}\)|{_BY}|has\({_VALUE}\)|join\({_STRING}\)|(?:{_NAMES.replace(' ', '|')})(?:\[\])?)"
)
_MEMBER = rf"[A-Za-z_]\w*(?:\s*:\s*{_FIELD})?"
_OBJECT = rf"\{{\s*{_MEMBER}(?:\s*,\s*{_MEMBER})*\s*\}}"
_TEXT = rf'"(?:[^"\\]|\\[nt])*(?:\\\({_FIELD}\)(?:[^"\\]|\\[nt])*){{0,20}}"'
_LARGER = rf"(?:{_OBJECT}|map\({_OBJECT}\)|{_TEXT}|@[a-z]+)"
_PLAIN = rf"(?:{_PATH}|{_CALL})"
_AFTER = rf"(?:\s*\|\s*{_PLAIN})*"
_STAGES = rf"(?:{_PLAIN}{_AFTER}(?:\s*\|\s*{_LARGER}{_AFTER})?|{_LARGER}{_AFTER})"
_SEVERAL = rf"{_PATH}(?:\s*,\s*{_PATH})+"
_COUNTED = rf"{_FIELD}\s*[-+*/]\s*[0-9]{{1,3}}"
_PROGRAM = rf"{_STAGES}|{_SEVERAL}|{_COUNTED}|\[\s*{_STAGES}\s*\]"  # compiled when a program comes: that takes long


def jq(seen: Set[str], operands: Sequence[str]) -> str:
    program = operands[0].strip() if operands else "."
    good = len(program) <= _LONGEST and re.fullmatch(_PROGRAM, program, re.ASCII)
    return "" if good else "jq is a language; only paths and plain functions are known to read and hold little"
