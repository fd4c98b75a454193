"""What the chat asks of the application, and the few values they exchange. The application implements `Host`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from cowork.core.events import Event
from cowork.core.frozen import frozen


@frozen
class Status:
    """What the start banner and the status line show. Empty fields are left out."""

    version: str = ""
    cwd: str = ""
    branch: str = ""
    trusted: bool = True
    model: str = ""
    light_model: str = ""
    mode: str = "ask"
    context_percent: float | None = None
    cost_usd: float | None = 0.0
    jobs: int = 0  # background commands that still run
    agents: int = 0  # agent files loaded
    knowledge: tuple[str, ...] = ()  # AGENTS.md and the like that were read
    notes: tuple[str, ...] = ()  # lines under the banner: no key found, a bad agent file
    line: str = ""  # the status line as the person's settings make it; empty: as it is
    activity: str = ""  # what a slash command waits for, and how far that is


@frozen
class StatusLines(Event, durable=False):
    """The status line changed, or what a program of the person's makes of the rows of children; for the chat alone."""

    rows: Mapping[str, str] = field(default_factory=dict)  # by subagent_id; an empty one hides the row


@frozen
class ConversationOpened(Event, durable=False):
    """Another conversation is shown from now on, with what it holds so far; for whoever shows it alone."""

    history: Sequence[Event] = ()


@frozen
class PromptResult:
    """A command's result that is sent to the model; people see `label` instead of a long text."""

    text: str
    label: str = ""


@frozen
class Row:
    """One thing to choose. `preview` is Markdown, or finds it when the row is looked at."""

    value: str
    label: str
    detail: str = ""
    preview: str | Callable[[], Awaitable[str]] = ""


@frozen
class Choose:
    """A command's result that lets the person choose; `then` goes on with what was chosen and may ask again."""

    title: str
    rows: Sequence[Row]
    then: Callable[[Row], Awaitable[CommandResult]]
    start: int = 0  # the row the cursor stands on first
    write: str = ""  # what may be written instead of choosing a row, in a few words
    secret: bool = False  # what is written is not shown


@frozen
class FileChange:
    """What became of one file; without a diff there is only the remark."""

    path: str
    diff: str = ""
    remark: str = ""
    edited: bool = True  # False: all of it is new, or gone


@frozen
class Draft:
    """A command's result that goes into the input, to be changed and sent; `said` is Markdown to print."""

    text: str
    said: str = ""


@frozen
class ContextUse:
    """A command's result that is drawn as a picture: what fills the context window, in tokens."""

    parts: Sequence[tuple[str, int]]  # by estimate
    used: int  # as the service last counted it
    window: int


# A string is Markdown, a list of files is shown as diffs.
CommandResult: TypeAlias = "str | PromptResult | Choose | list[FileChange] | Draft | ContextUse | None"


@frozen
class Command:
    """A slash command. `run` gets what was typed after the name; a UserError it raises is shown calmly."""

    name: str
    help: str
    run: Callable[[str], Awaitable[CommandResult]]
    arguments: str = ""
    choices: Callable[[], Sequence[str]] | None = None  # completions of the argument
    busy: bool = False  # it may run while a turn works; otherwise it waits in the queue
    resets: bool = False  # another conversation may follow, so it is not stopped halfway
    sends: bool = False  # it gives a prompt, which is shown when it is sent, so the command itself need not be


@frozen
class Options:
    """How the chat behaves; all from configuration."""

    history: Path | None = None  # None: nothing is remembered
    keys: Literal["emacs", "vi"] = "emacs"
    theme: Literal["auto", "dark", "light"] = "auto"
    notify: Literal["auto", "bell", "off"] = "auto"  # auto: OSC 9 or 777; bell: that and the bell
    notify_by: Literal["9", "777"] = "9"  # the OSC code the terminal knows
    notify_after_s: float = 15.0  # a turn shorter than this ends silently
    title: bool = True  # set the terminal's title
    prompt: str = ""  # sent at the start, as if it had been typed


class Host(Protocol):
    """The application as the chat sees it. Everything runs on one event loop; nothing here may block."""

    def status(self) -> Status:
        """The facts of the status line. Called at every redraw, so it must be cheap."""

    def commands(self) -> Sequence[Command]:
        """The application's slash commands and the user's own. The chat adds /help /theme /vim /todo /copy /exit."""

    async def submit(self, text: str, images: Sequence[Path] = (), *, label: str = "") -> None:
        """Run one prompt to its end; returns after `turn.ended`. Emits `prompt.added` at once. Never raises."""

    def interrupt(self) -> None:
        """Stop the running turn and every child; `submit` then returns soon."""

    def steer(self, text: str) -> None:
        """Say something before the next request of the running turn; `prompt.added` (source `steer`) confirms it.
        What was not confirmed when `submit` returns is void here: the chat sends it as the next message."""

    def keep_waiting(self, texts: Sequence[str]) -> None:
        """What was typed ahead and is not sent yet, for whoever goes on should the process die; none: forget it."""

    def read_waiting(self) -> Sequence[str]:
        """What was kept so when this conversation was last left."""

    def stop_child(self, subagent_id: str, how: Literal["finish", "kill"]) -> None:
        """`finish`: let it report what it has; `kill`: abort it now."""

    async def tell_child(self, subagent_id: str, text: str, images: Sequence[Path] = ()) -> None:
        """Say something to a running child before its next request, with what it names."""

    def cycle_mode(self) -> str:
        """Go to the next permission mode and give its name."""

    async def files(self) -> Sequence[str]:
        """Paths for `@` completion, relative to the working directory, ignore files honoured. May take its time."""

    async def resources(self, typed: str) -> Sequence[tuple[str, str]]:
        """(`server:uri`, what it is) that `@typed` may become; `server:` where none is named yet."""

    def agents(self) -> Sequence[tuple[str, str]]:
        """(name, description) of the agents `@` may name."""

    async def run_shell(self, command: str) -> None:
        """Run the user's own command (`!cmd`), show it as Bash tool events, and let the model see its output."""

    async def add_note(self, text: str) -> str:
        """Add a line to AGENTS.md; gives one line saying where it went."""

    def history(self) -> Sequence[Event]:
        """The durable events of this session, children's included, oldest first; the viewer reads them."""
