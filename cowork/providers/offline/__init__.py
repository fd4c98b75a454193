"""The built-in offline model: a rule-based planner behind the provider seam. No network, no files, no cost."""

from __future__ import annotations

from cowork.core.ports import ModelSpec
from cowork.providers.offline.model import Offline


def open_offline(spec: ModelSpec) -> Offline:
    """The model; of the spec only the sizes matter."""
    return Offline(spec.model or "offline", spec.context_window, spec.max_output_tokens)
