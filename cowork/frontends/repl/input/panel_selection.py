"""Which child the keys are about: chosen with Tab, stopped with x, spoken to with m."""

from __future__ import annotations

from dataclasses import dataclass

from cowork.core.format import one_line
from cowork.frontends.host import Host
from cowork.frontends.repl.view.children.child_state import ChildState, in_tree_order
from cowork.frontends.repl.view.scene import Scene


@dataclass(slots=True)
class PanelSelection:
    """The chosen panel and the child the input is written to, both by the child's path."""

    scene: Scene
    host: Host
    path: str = ""
    message_to: str = ""

    @property
    def panel(self) -> ChildState | None:
        """The chosen panel, while its child is at work."""
        return self.scene.panels.get(self.path)

    @property
    def listener(self) -> ChildState | None:
        """The child the input goes to, if any."""
        return self.scene.panels.get(self.message_to)

    def move(self, step: int) -> None:
        """The next panel, or the first."""
        paths = [child.path for child in in_tree_order(self.scene.panels.values())]
        if not paths:
            return
        at = paths.index(self.path) + step if self.path in paths else (0 if step > 0 else -1)
        self.path = paths[at % len(paths)]

    def leave(self) -> None:
        self.path = ""

    def unfold(self) -> bool:
        """Open the chosen panel; False when it was open already."""
        panel = self.panel
        if panel is None or panel.shown_open:
            return False
        panel.open = True
        return True

    def fold(self) -> None:
        """Make the chosen panel a row again."""
        if self.panel is not None:
            self.panel.open = False

    def stop(self) -> None:
        """Ask the child to finish; the second time end it."""
        panel = self.panel
        if panel is not None:
            self.host.stop_child(panel.subagent_id, "kill" if panel.stopping else "finish")
            panel.stopping = True

    def address(self) -> None:
        """What is written next goes to the chosen child."""
        self.message_to, self.path = self.path, ""

    def lose(self) -> str:
        """The name of the child the input was for, if it ended meanwhile; what is written is the main agent's then."""
        if not self.message_to or self.listener is not None:
            return ""
        name = one_line(self.message_to.rpartition("/")[2])
        self.message_to = ""
        return name

    def deliver(self, text: str) -> str:
        """Say it to the child the input was for; gives the child's name, empty when there is none."""
        panel = self.listener
        self.message_to = ""
        if panel is None or not text:
            return ""
        self.host.tell_child(panel.subagent_id, text)
        return panel.name
