"""The scripted model, which plays turns from a YAML or JSON file."""

from cowork.providers.scripted.model import TASK_MARK, Scripted, open_scripted

__all__ = ["TASK_MARK", "Scripted", "open_scripted"]
