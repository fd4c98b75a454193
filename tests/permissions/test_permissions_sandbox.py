"""What a command can and cannot do in the sandbox, as root and as an ordinary user."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cowork.core.errors import ToolError, UserError
from cowork.core.hygiene import conceal
from cowork.core.ports import BoxName, Effect
from cowork.core.workspace import Workspace
from cowork.permissions import Permissions
from cowork.permissions.rules import Rules
from cowork.permissions.sandbox.box import Sandbox
from cowork.permissions.sandbox.carriers import Temporary, profile
from cowork.permissions.sandbox.masks import WorkspaceSecrets, sockets, toolchains
from cowork.permissions.sandbox.watch import guarded_paths
from cowork.permissions.trust import Trust
from tests.fakes.calls import TOOLS
from tests.permissions.conftest import acting_as, until_made, yard_base

NOBODY = 65534


@dataclass
class Yard:
    """A home with secrets and a workspace in it, for one user."""

    user: int
    base: Path

    @property
    def root(self) -> Path:
        return self.base / "home/shop"

    def sandbox(self, **options: object) -> Sandbox:
        environ = {
            "HOME": str(self.base / "home"),
            "PATH": os.environ["PATH"],
            "COWORK_HOME": str(self.base / "home/.cowork-home"),
        }
        scratch = self.base / "home/.cowork-home/sessions/s/outputs"
        return Sandbox(workspace=Workspace(self.root, readable=[scratch]), environ=environ, **options)  # type: ignore[arg-type]

    def run(self, script: str, sandbox: Sandbox | None = None, cwd: Path | None = None) -> str:
        """What a script prints, run in the sandbox as this yard's user."""

        def run() -> str:
            with acting_as(self.user):
                argv = list((sandbox or self.sandbox()).wrap(["/bin/bash", "-c", script], cwd or self.root))
            return self.start(argv)

        return until_made(run)

    def start(self, argv: list[str]) -> str:
        """What words that were put together for this yard's user print."""
        if self.user != os.geteuid():
            argv = ["setpriv", "--reuid", str(self.user), "--regid", str(self.user), "--clear-groups", *argv]
        environ = {"HOME": str(self.base / "home"), "PATH": os.environ["PATH"]}
        done = subprocess.run(argv, env=environ, cwd=self.root, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout + done.stderr


USERS = (
    [pytest.param(0, id="root"), pytest.param(NOBODY, id="user")]
    if os.geteuid() == 0
    else [pytest.param(os.geteuid(), id="user")]
)


@pytest.fixture(params=USERS)
def yard(request: pytest.FixtureRequest) -> Iterator[Yard]:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap (bwrap) is not installed, so the sandbox cannot be tried here")
    base = yard_base("cowork-yard-")
    made = Yard(request.param, base)
    for folder in (
        "home/shop/.git/hooks",
        "home/shop/src",
        "home/shop/.vscode",
        "home/shop/.cowork",
        "home/.ssh",
        "home/.aws",
    ):
        (base / folder).mkdir(parents=True)
    for folder in ("home/.config/gh", "home/.cowork-home/sessions/s/outputs"):
        (base / folder).mkdir(parents=True)
    for name in (
        "shop/.git/config",
        "shop/.vscode/tasks.json",
        "shop/.cowork/config.toml",
        "shop/AGENTS.md",
        "shop/.envrc",
        "shop/.mcp.json",
    ):
        (base / "home" / name).write_text("guarded\n")
    for name in (".ssh/id_rsa", ".aws/credentials", ".config/gh/hosts.yml", ".netrc", ".cowork-home/trust.json"):
        (base / "home" / name).write_text("PLANTED-SECRET\n")
    if made.user != os.geteuid():
        for path in [base, *base.rglob("*")]:
            os.chown(path, made.user, made.user)
    try:
        if missing := made.sandbox()._missing():
            pytest.skip(f"no sandbox here: {missing}")
        if "ok" not in (said := made.run("echo ok")):
            pytest.skip(f"bubblewrap does not work for uid {made.user} here: {said[-200:]}")
        yield made
    finally:
        shutil.rmtree(base)


def test_a_command_has_no_capabilities_and_can_get_none(yard: Yard) -> None:
    said = yard.run("grep -E '^(CapEff|CapPrm|CapBnd|CapAmb|NoNewPrivs)' /proc/self/status")
    assert sorted(said.split()) == sorted(
        ["CapPrm:", "0" * 16, "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "CapAmb:", "0" * 16, "NoNewPrivs:", "1"]
    )


def test_the_workspace_can_be_written_and_recorded_outputs_can_be_read(yard: Yard) -> None:
    scratch = yard.base / "home/.cowork-home/sessions/s/outputs"
    (scratch / "bash-1.txt").write_text("recorded\n")
    said = yard.run(
        f"echo new > src/new.py && mkdir deep && pwd && cat {scratch}/*; ln -sf ../../keys {scratch}/bash-1.txt"
    )
    assert said.split("\n")[:2] == [str(yard.root), "recorded"]
    assert "Read-only file system" in said
    assert (yard.root / "src/new.py").read_text() == "new\n"
    assert [(path.name, path.is_symlink()) for path in scratch.iterdir()] == [("bash-1.txt", False)]


@pytest.mark.parametrize("network", [False, True])
def test_a_server_in_a_box_writes_only_its_folders(yard: Yard, network: bool) -> None:
    sandbox, own = yard.sandbox(), yard.root / "src"
    (yard.root / ".env").write_text("PLANTED-SECRET\n")
    (own / ".vscode").mkdir()
    script = (
        "for f in src/ok made src/.vscode/no ~/no /tmp/fine; do echo x > $f; done 2>&1; cat .env ~/.ssh/id_rsa ~/.netrc"
    )
    script += "; ls src /tmp"
    with acting_as(yard.user):
        words = sandbox.wrap_server(["/bin/bash", "-c", script], yard.root, writable=[own], network=network)
    said = yard.start(words)
    assert said.count("Read-only file system") >= 2, said
    assert "PLANTED" not in said
    assert "ok" in said
    assert "fine" in said
    assert set(os.listdir(own)) == {"ok", ".vscode"}
    assert not (yard.root / "made").exists()
    assert not (yard.base / "home/no").exists()
    assert not os.listdir(own / ".vscode")
    assert ("--share-net" in words) == network
    later = sandbox.wrap(["true"], yard.root)
    assert list(later).count("--die-with-parent") == 2  # a server may move what is mounted for the next command


@pytest.mark.parametrize("folder", ["missing", "/", "..", "../.."])
def test_a_server_that_cannot_be_held_is_not_started(yard: Yard, folder: str) -> None:
    with pytest.raises(UserError, match="cannot be writable"):
        yard.sandbox().wrap_server(["true"], yard.root, writable=[yard.root / folder], network=False)
    with pytest.raises(UserError, match="the sandbox is off"):
        yard.sandbox(mode="off").wrap_server(["true"], yard.root, writable=[], network=False)


def test_commands_of_a_run_share_a_tmp_that_goes_with_it(tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap (bwrap) is not installed, so the sandbox cannot be tried here")
    root = Path(tempfile.mkdtemp(prefix="cowork-yard-", dir="/var/tmp"))
    environ = {"HOME": str(root), "PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    temporary = Temporary()
    sandbox = Sandbox(workspace=Workspace(root), environ=environ, temporary=temporary)
    if not sandbox.active:
        pytest.skip(f"no sandbox here: {sandbox.status()}")

    def run(script: str, box: BoxName = "write") -> str:
        words = sandbox.wrap(["/bin/sh", "-c", script], root, box)
        return subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60, check=False).stdout

    try:
        assert run("cd $TMPDIR && mkdir -p closed/in && echo kept > a && chmod 0 closed && pwd") == "/tmp\n"
        assert run("cat /tmp/a") == "kept\n"
        assert run("ls -A /tmp", "read") == ""
        assert not (tmp_path / "a").exists()
        folder = temporary.folder()
        temporary.close()
        assert folder is not None
        assert not folder.exists()
    finally:
        temporary.close()
        shutil.rmtree(root)


def test_the_tmp_of_a_killed_run_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    alive = Temporary()
    left = tmp_path / "cowork-tmp-killed"
    left.mkdir()
    (left / "file").write_text("")
    monkeypatch.setattr(time, "time", lambda now=time.time: now() + 3600)
    kept = alive.folder()
    assert not left.exists()
    other = Temporary()
    other.folder()
    assert kept is not None
    assert kept.is_dir()
    alive.close()
    other.close()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    assert Temporary().folder() is None


GUARDED = [
    "echo x > .git/config",
    "echo x > .git/hooks/pre-commit",
    "rm .git/config",
    "rm -rf .git/hooks",
    "mv .git/hooks .git/away",
    "mv .git away",
    "ln -sf x .git/config",
    "echo x > .vscode/tasks.json",
    "echo x > .vscode/new.json",
    "mv .vscode away",
    "echo x > .cowork/config.toml",
    "mkdir .cowork/agents",
    "echo x > AGENTS.md",
    "rm AGENTS.md",
    "echo x > .envrc",
    "echo x > .mcp.json",
    "echo x > ../.bashrc",
    "echo x > ../new",
    "echo x > ~/.profile",
    "touch /etc/x",
    "touch /usr/x",
    "touch /var/x",
    "mount -o remount,rw /",
    "umount .git/config",
    "chmod 777 .git/config",
    "touch /proc/sys/kernel/x",
    "python3 -c \"import os; os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)\"",
    "python3 -c \"import os; os.open('/proc/sys/vm/drop_caches', os.O_WRONLY)\"",
    "unshare -Ur true",
    "unshare -Urm mount -o remount,rw .vscode",
]


@pytest.mark.parametrize("script", GUARDED)
def test_what_is_protected_cannot_be_changed(script: str, yard: Yard) -> None:
    def state() -> list[tuple[str, str]]:
        return [(str(p), p.read_text()) for p in sorted(yard.base.rglob("*")) if p.is_file()]

    before = state()
    said = yard.run(f"{script} && echo CHANGED")
    assert state() == before
    if ".." not in script and "~" not in script:  # around the workspace lies a private /var/tmp here, which may change
        assert "CHANGED" not in said
    assert not Path("/etc/x").exists()


SECRETS = [
    "cat ~/.ssh/id_rsa",
    "cat ~/.aws/credentials",
    "cat ~/.config/gh/hosts.yml",
    "cat ~/.netrc",
    "cat ~/.cowork-home/trust.json",
]
SECRETS += ["cat /proc/1/environ", "cat /proc/[0-9]*/environ", "grep -r PLANTED ~ /tmp /run"]


@pytest.mark.parametrize("script", SECRETS)
def test_secrets_are_not_there(script: str, yard: Yard) -> None:
    assert "PLANTED" not in yard.run(script).replace("grep -r PLANTED", "")


def test_there_is_no_network(yard: Yard) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    script = (
        f"(echo hi > /dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo CONNECTED; tail -n +3 /proc/net/dev | cut -d: -f1"
    )
    try:
        assert yard.run(script).split() == ["lo"]
        assert "CONNECTED" in yard.run(script, yard.sandbox(network=True))
    finally:
        server.close()


NETWORK = [
    # rules that allow, rules that deny, command, whether it has the network
    (["Network(curl:*)"], [], "curl http://x", True),
    (["Network(curl:*)"], [], "ls && curl http://x | head", True),
    (["Network"], [], "make fetch", False),
    (["Network(npm ci)"], [], "npm ci", True),
    (["Bash(curl:*)"], [], "curl http://x", False),
    (["Bash"], [], "curl http://x", False),
    (["Network(npm ci)"], [], "npm ci --registry http://x", False),
    (["Network(curl:*)"], [], "curl http://x; wget http://y", False),
    (["Network(curl:*)"], [], "env curl http://x", False),
    (["Network(curl:*)"], [], "curl $(cat .env)", False),
    (["Network(curl:*)"], [], "curl http://x > out", False),
    (["Network(curl:*)"], [], "CURL http://x", False),
    (["Network(curl:*)"], [], "ls", False),
    (["Network"], ["Network(curl:*)"], "curl http://x", False),
    (["Network"], ["Network(curl:*)"], "timeout 5 curl http://x", False),
    (["Network"], ["Network(curl:*)"], "$X http://x", False),
    (["Network"], ["Network(curl:*)"], "wget http://x", True),
    (["Network"], ["Network"], "wget http://x", False),
]


@pytest.mark.parametrize(("allow", "deny", "command", "expected"), NETWORK)
def test_rules_say_which_commands_have_the_network(
    allow: list[str], deny: list[str], command: str, expected: bool, workspace: Workspace
) -> None:
    permit = Permissions(
        workspace=workspace, allow=allow, deny=deny, trusted=True, sandbox=Sandbox(workspace=workspace)
    )
    for one in (permit, permit.child()):
        decision = one.judge("main", TOOLS["Bash"], {}, [Effect("exec", command)])
        assert (decision.verdict == "allow" and decision.box == "network") is expected


def test_a_command_that_a_rule_lets_out_can_connect(yard: Yard) -> None:
    for box in ("read", "masked", "write", "network"):
        assert ("--share-net" in yard.sandbox().wrap(["true"], yard.root, box)) is (box == "network")
    assert yard.sandbox().wrap(["true"], yard.root, "outside") == ["true"]


def test_other_processes_and_the_host_name_are_out_of_reach(yard: Yard) -> None:
    said = yard.run(
        f"hostname; kill -0 {os.getpid()} 2>/dev/null && echo SEEN; ls /proc | grep -c '^[0-9]'; ls -A /tmp /run"
    )
    assert said.split()[0] == "sandbox"
    assert "SEEN" not in said
    assert int(said.split()[1]) < 8


def test_a_command_dies_with_the_one_who_started_it(yard: Yard) -> None:
    marker = f"cowork-{os.getpid()}-{yard.user}"
    with acting_as(yard.user):
        argv = list(yard.sandbox().wrap(["/bin/bash", "-c", f"exec -a {marker} sleep 60"], yard.root))
    if yard.user != os.geteuid():
        argv = ["setpriv", "--reuid", str(yard.user), "--regid", str(yard.user), "--clear-groups", *argv]
    process = subprocess.Popen(argv, cwd=yard.root)
    try:
        assert _until(lambda: _running(marker))
    finally:
        process.kill()
        process.wait()
    assert _until(lambda: not _running(marker))


def _running(marker: str) -> bool:
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes().startswith(marker.encode() + b"\0"):
                return True
        except OSError:
            continue
    return False


def _until(true: object) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if true():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


def test_a_home_that_is_the_workspace_still_hides_its_keys(yard: Yard) -> None:
    environ = {"HOME": str(yard.base / "home"), "PATH": os.environ["PATH"]}
    sandbox = Sandbox(workspace=Workspace(yard.base / "home"), environ=environ)
    script = "cat ~/.ssh/id_rsa ~/.aws/credentials ~/.netrc; echo x > ~/new"
    assert "PLANTED" not in yard.run(script, sandbox, yard.base / "home")
    assert (yard.base / "home/new").exists()
    (yard.base / "home/.envrc").symlink_to(".ssh/id_rsa")
    yard.run("mv ~/.config ~/moved; mv ~/.ssh ~/away", sandbox, yard.base / "home")
    script = "cat ~/moved/gh/hosts.yml ~/.config/gh/hosts.yml ~/away/id_rsa ~/.ssh/id_rsa ~/.envrc"
    assert "PLANTED" not in yard.run(script, sandbox, yard.base / "home")


def test_a_folder_of_the_run_within_another_cannot_be_moved(yard: Yard) -> None:
    (yard.root / "deep/inner").mkdir(parents=True)
    environ = {"HOME": str(yard.base / "home"), "PATH": os.environ["PATH"]}
    sandbox = Sandbox(workspace=Workspace(yard.root, [yard.root / "deep/inner"]), environ=environ)
    yard.run("mv deep away; ln -s .. deep; touch deep/inner/new", sandbox)
    assert (yard.root / "deep/inner/new").exists() is (yard.user == os.stat(yard.root / "deep/inner").st_uid)
    assert not (yard.root / "deep").is_symlink()


def test_a_linked_worktree_can_commit_but_not_touch_hooks(yard: Yard) -> None:
    git = "git -c user.name=a -c user.email=a@b -c init.defaultBranch=main -c safe.directory='*'"
    main = yard.base / "home/main"
    script = (
        f"cd ~ && {git} init -q main && cd main && {git} commit -q --allow-empty -m 1 && {git} worktree add -q ../tree"
    )
    as_user = (
        []
        if yard.user == os.geteuid()
        else ["setpriv", "--reuid", str(yard.user), "--regid", str(yard.user), "--clear-groups"]
    )
    environ = {"HOME": str(yard.base / "home"), "PATH": os.environ["PATH"]}
    subprocess.run([*as_user, "/bin/bash", "-c", script], env=environ, check=True, timeout=60)
    sandbox = Sandbox(workspace=Workspace(yard.base / "home/tree"), environ=environ)
    script = f"{git} commit -q --allow-empty -m 2 && {git} log --oneline | wc -l; echo x > {main}/.git/hooks/x"
    said = yard.run(script, sandbox, yard.base / "home/tree")
    assert said.split()[0] == "2"
    assert not (main / ".git/hooks/x").exists()


def test_a_forged_worktree_pointer_opens_nothing(yard: Yard) -> None:
    shutil.rmtree(yard.root / ".git")
    (yard.root / ".git").write_text(f"gitdir: {yard.base}/home/.ssh\n")
    assert yard.base / "home/.ssh" not in yard.sandbox().writable()
    assert "PLANTED" not in yard.run("cat ~/.ssh/id_rsa")


# ---------------------------------------------------------------- without bubblewrap


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment in which bubblewrap cannot be found."""
    (tmp_path / "bin").mkdir()
    return {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin")}


def test_a_required_sandbox_that_is_missing_refuses(bare: dict[str, str], workspace: Workspace) -> None:
    sandbox = Sandbox(workspace=workspace, mode="required", environ=bare)
    assert not sandbox.active
    with pytest.raises(ToolError, match="bwrap"):
        sandbox.wrap(["true"], workspace.root)
    permit = Permissions(workspace=workspace, mode="bypass", sandbox=sandbox, trusted=True)
    decision = permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", "ls")])
    assert (decision.verdict, "required" in decision.reason) == ("deny", True)
    assert "none will run" in sandbox.status()


def test_without_a_sandbox_the_words_stay_as_they_are_and_that_is_said(
    bare: dict[str, str], workspace: Workspace
) -> None:
    for mode in ("auto", "off"):
        sandbox = Sandbox(workspace=workspace, mode=mode, environ=bare)
        assert sandbox.wrap(["true"], workspace.root) == ["true"]
        assert "your own rights" in sandbox.status()
        assert not sandbox.refusal


def test_a_bubblewrap_that_commands_could_change_is_no_sandbox(bare: dict[str, str], tmp_path: Path) -> None:
    fake = Path(bare["PATH"]) / "bwrap"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    sandbox = Sandbox(workspace=Workspace(tmp_path), environ=bare)
    assert not sandbox.active
    assert "lies in a folder commands may write" in sandbox.status()


def test_a_bubblewrap_that_does_not_work_is_found_out_by_running_it(bare: dict[str, str], workspace: Workspace) -> None:
    fake = Path(bare["PATH"]) / "bwrap"
    fake.write_text("#!/bin/sh\necho 'no permission to make namespaces' >&2\nexit 1\n")
    fake.chmod(0o755)
    sandbox = Sandbox(workspace=workspace, environ=bare)
    assert not sandbox.active
    assert "no permission to make namespaces" in sandbox.status()


def test_the_seatbelt_profile_says_what_is_promised(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    text = profile(workspace, [tmp_path], [Path("/Users/a/.ssh")], network=False)
    assert text.startswith("(version 1)\n(allow default)\n(deny file-write*)\n")
    assert f'(subpath "{workspace.root}")' in text
    assert '(deny file-read* file-write* (subpath "/Users/a/.ssh"))' in text
    assert "(deny network*)" in text
    guarded = re.compile("/(" + text.partition('(regex #"/(')[2].partition('")')[0])
    held = (
        ".git/config .git/hooks/pre-commit .git/info/attributes AGENTS.md .agents/x.md .claude/settings.json .mcp.json"
        " .ssh/id_rsa .bashrc .zshrc .profile .envrc .config/git/config .config/fish/x .Husky/x .vscode/tasks.json"
    )
    for name in held.split():
        assert guarded.search(f"{workspace.root}/{name}"), name
    for name in (".git/index", ".git/objects/ab", "agents/x.md", "src/git/config.py", ".config/app/x", "profile"):
        assert not guarded.search(f"{workspace.root}/{name}"), name
    assert text.index("(deny file-write* (require-all") > text.index("(allow file-write*")
    assert text.count("(") == text.count(")")
    assert "network" not in profile(workspace, [tmp_path], [], network=True)


@pytest.mark.parametrize("name", ['quote"d', "back\\slash", "(paren)"])
def test_a_folder_with_an_odd_name_cannot_break_out_of_the_profile(name: str, tmp_path: Path) -> None:
    text = profile(Workspace(tmp_path / name), [tmp_path / name], [], network=False)
    assert '"' + str(tmp_path / name).replace("\\", "\\\\").replace('"', '\\"') + '"' in text


def test_a_name_with_control_characters_is_refused_in_a_profile(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="control characters"):
        profile(Workspace(tmp_path), [tmp_path / "a\nb"], [], network=False)


def test_trust_is_not_in_reach_of_a_command(yard: Yard) -> None:
    store = yard.base / "home/.cowork-home/trust-2.json"
    Trust(store).grant(yard.root)
    before = store.read_text()
    yard.run(f"echo '{{}}' > {store}; rm -f {store}")
    assert store.read_text() == before


def test_a_bwrap_in_the_folder_one_is_in_is_never_run(
    tmp_path: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil").mkdir()
    fake = tmp_path / "evil" / "bwrap"
    fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/RAN\n")
    fake.chmod(0o755)
    monkeypatch.chdir(tmp_path / "evil")
    for path in ("", ".", "./", ":/nowhere", "../evil"):
        assert not Sandbox(workspace=workspace, environ={"PATH": path}).active
    assert not (tmp_path / "RAN").exists()


def test_sockets_of_agents_and_daemons_cannot_be_reached(yard: Yard) -> None:
    """By the paths variables name, by those any program has open, also in the workspace; its own sockets can."""
    home = yard.base / "home"
    places = [home / "agent.sock", home / ".docker-run.sock", home / "shop/ssh.sock", home / "shop/own.sock"]
    servers = []
    for place in places:
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(place))
        server.listen()
        os.chmod(place, 0o777)
        servers.append(server)
    try:
        environ = {"HOME": str(home), "PATH": os.environ["PATH"], "SSH_AUTH_SOCK": str(places[2]), "DISPLAY": ":0"}
        environ |= {"DOCKER_HOST": f"unix://{places[1]}"}
        sandbox = Sandbox(workspace=Workspace(yard.root), environ=environ)
        script = "import os, socket, sys\n"
        script += f"for place in {[str(place) for place in places]!r}:\n"
        script += "    try: socket.socket(socket.AF_UNIX).connect(place); print('REACHED', os.path.basename(place))\n"
        script += "    except OSError: pass\n"
        script += "print('ENV', [name for name in ('SSH_AUTH_SOCK', 'DOCKER_HOST', 'DISPLAY') if name in os.environ])\n"
        (yard.root / "reach.py").write_text(script)
        assert yard.run("python3 reach.py", sandbox).splitlines() == ["REACHED own.sock", "ENV []"]
        loose = subprocess.run(["python3", str(yard.root / "reach.py")], capture_output=True, text=True, check=True)
        assert loose.stdout.count("REACHED") == len(places)  # outside they all answer
        with acting_as(yard.user):
            found = set(map(Path, sockets({}, [yard.root], [])))
        assert set(places) & found == set(places[:2])  # what is open, wherever it lies
    finally:
        for server in servers:
            server.close()


def test_abstract_sockets_cannot_be_reached(yard: Yard) -> None:
    name = f"cowork-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        script = f"import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + '{name}'); print('REACHED')"
        assert "REACHED" not in yard.run(f'python3 -c "{script}"')


LOOKED_AT = """
import os
if HIDE:
    conceal()
child = os.fork()
if child == 0:
    os.execv("/bin/sh", ["sh", "-c", "cat /proc/$PPID/environ; head -c 1 /proc/$PPID/maps; ls /proc/$PPID/fd"])
os.waitpid(child, 0)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("hide", [True, False])
def test_commands_of_the_same_user_cannot_look_into_us(hide: bool, tmp_path: Path) -> None:
    program = inspect.getsource(conceal) + LOOKED_AT.replace("HIDE", str(hide))
    words = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "/usr/bin/python3", "-c"]
    environ = {"PATH": os.environ["PATH"], "PLANTED": "PLANTED-SECRET"}
    done = subprocess.run([*words, "import sys\n" + program], env=environ, capture_output=True, text=True, timeout=60)
    assert ("PLANTED" in done.stdout) is not hide
    assert done.stderr.count("Permission denied") == (3 if hide else 0), done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_socket_in_the_private_folder_of_another_user_is_in_nobodys_way(yard: Yard) -> None:
    with tempfile.TemporaryDirectory(dir="/srv") as name, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{name}/agent.sock")
        listening.listen()
        os.chown(name, 65534, 65534)
        os.chmod(name, 0o700)
        assert "ran" in yard.run("echo ran")


def test_a_private_key_behind_a_long_list_of_certificates_is_masked(tmp_path: Path) -> None:
    certificate = "-----BEGIN CERTIFICATE-----\n" + "A" * 60 + "\n-----END CERTIFICATE-----\n"
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("# Főtanúsítvány\n" + certificate * 10)
    secrets = WorkspaceSecrets(lambda: [tmp_path], tmp_path, Rules)
    assert secrets.find() == []
    bundle.write_text("# Főtanúsítvány\n" + certificate * 600 + "-----BEGIN PRIVATE KEY-----\nSECRET\n")
    assert secrets.find() == [bundle]


def test_a_git_that_is_a_link_to_itself_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / ".git").symlink_to(".git")
    assert guarded_paths([tmp_path]) == []


@pytest.mark.timeout(20)
def test_a_pipe_where_git_names_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "sub/.git").mkdir(parents=True)
    os.mkfifo(tmp_path / "sub/.git/commondir")
    sandbox = Sandbox(workspace=Workspace(tmp_path), environ={})
    assert sandbox.hides_git(tmp_path / "sub") == ""


def test_where_path_leads_in_a_home_is_shown_however_it_is_spelled(tmp_path: Path) -> None:
    for name in ("tool/bin", "bin", "other/bin", ".cargo/bin"):
        (tmp_path / name).mkdir(parents=True)
    path = f"{tmp_path}//tool/./bin/:{tmp_path}/.cargo/bin:{tmp_path}:/usr/bin::relative"
    assert toolchains(tmp_path, path) == [tmp_path / name for name in (".cargo", "bin", "tool")]
