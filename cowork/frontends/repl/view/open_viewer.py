"""Opens the viewer on the conversation, a child or a question, and keeps it up to date."""

from __future__ import annotations

from dataclasses import dataclass

from cowork.core.format import one_line
from cowork.core.ports import Question
from cowork.frontends.host import Host
from cowork.frontends.repl.input.dialog_lines import what_lines
from cowork.frontends.repl.terminal.control import TerminalControl
from cowork.frontends.repl.view.children.tree import AgentNode, tree
from cowork.frontends.repl.view.scene import Scene
from cowork.frontends.repl.view.viewer import Viewer


@dataclass(slots=True)
class OpenViewer:
    """The viewer that is open, if one is."""

    host: Host
    scene: Scene
    terminal: TerminalControl
    viewer: Viewer | None = None
    _seen: int = -1  # events in the history when it was last read

    def conversation(self, path: str = "") -> None:
        """The whole conversation, or the transcript of one child."""
        panel = self.scene.panels.get(path)
        title = f"{panel.name} · {panel.description}" if panel else "conversation"
        self._open(Viewer(title, lambda: tree(self.host.history(), path or "main", self.scene.cwd)))

    def question(self, question: Question) -> None:
        """Everything a question is about."""
        node = AgentNode("question", [("bold", one_line(question.title))], open=True)
        node.body = lambda columns, theme: what_lines(question, columns, self.scene.cwd, theme)
        self._open(Viewer(one_line(question.title), lambda: [node], at_end=False))

    def key(self, name: str) -> None:
        if self.viewer is None:
            return
        if name == "y" and self.viewer.query is None:
            self.terminal.copy(self.viewer.copied())
        elif not self.viewer.key(name):
            self.viewer = None

    def refresh(self) -> None:
        """Show what happened since; a child at work can be followed."""
        size = len(self.host.history())
        if self.viewer is not None and size != self._seen:
            self._seen = size
            self.viewer.refresh()

    def _open(self, viewer: Viewer) -> None:
        viewer.refresh()
        self._seen = len(self.host.history())
        self.viewer = viewer
