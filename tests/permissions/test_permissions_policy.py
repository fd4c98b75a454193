"""The whole policy in one table, and what grants, layers, children and rule texts do."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cowork.core.errors import UserError
from cowork.core.ports import Decision, Effect, mode_of, tighter
from cowork.core.workspace import Workspace
from cowork.permissions import Permissions
from cowork.permissions.rules import RuleBook, Rules, check_tools, parse, parse_all
from tests.fakes.calls import TOOLS, Facts

# What a call does                          plan    ask     accept  bypass
TABLE = """
Read src/a.py                               allow   allow   allow   allow
Grep src                                    allow   allow   allow   allow
Glob .                                      allow   allow   allow   allow
LS docs                                     allow   allow   allow   allow
Read .env                                   ask     ask     ask     allow
Read secret.pem                             ask     ask     ask     allow
Read /etc/passwd                            deny    deny    deny    deny
Read outside.txt                            deny    deny    deny    deny
Write new.py                                deny    ask     allow   allow
Edit src/a.py                               deny    ask     allow   allow
MultiEdit src/a.py                          deny    ask     allow   allow
Write .git/config                           deny    ask     ask     ask
Write .git/hooks/pre-commit                 deny    ask     ask     ask
Write .GIT/HOOKS/pre-commit                 deny    ask     ask     ask
Write .cowork/config.toml                   deny    ask     ask     ask
Write .vscode/tasks.json                    deny    ask     ask     ask
Write AGENTS.md                             deny    ask     ask     ask
Write src/.bashrc                           deny    ask     ask     ask
Write /etc/x                                deny    deny    deny    deny
Write outdir/x                              deny    deny    deny    deny
Bash ls -la                                 allow   allow   allow   allow
Bash git status                             allow   allow   allow   allow
Bash cat .env                               allow   allow   allow   allow
Bash npm test                               allow   allow   allow   allow
Bash npm run build                          allow   ask     ask     allow
Bash mkdir -p src/new                       allow   ask     allow   allow
Bash mkdir ../x                             allow   ask     ask     allow
Bash touch .git/hooks/x                     allow   ask     ask     allow
Bash rm -rf src                             allow   ask     ask     allow
Bash rm -rf /                               deny    deny    deny    deny
Bash echo $(date)                           allow   allow   allow   allow
BashOutput                                  allow   allow   allow   allow
KillBash                                    allow   allow   allow   allow
TodoWrite                                   allow   allow   allow   allow
Task explore                                allow   allow   allow   allow
# with deny: Read(docs/**) Edit(src/**) Bash(npm:*) Task(bash)
Read docs/guide.md                          deny    deny    deny    deny    denied
Grep docs                                   deny    deny    deny    deny    denied
Read README.md                              allow   allow   allow   allow   denied
Edit src/a.py                               deny    deny    deny    deny    denied
Write src/new.py                            deny    deny    deny    deny    denied
Write SRC/new.py                            deny    deny    deny    deny    denied
Write docs/new.md                           deny    ask     allow   allow   denied
Bash npm test                               deny    deny    deny    deny    denied
Bash env npm test                           deny    deny    deny    deny    denied
Task bash                                   deny    deny    deny    deny    denied
Agent Bash                                  deny    deny    deny    deny    denied
Task explore                                allow   allow   allow   allow   denied
# with ask: the same rules
Read docs/guide.md                          ask     ask     ask     ask     asked
Edit src/a.py                               deny    ask     ask     ask     asked
Bash npm test                               allow   ask     ask     ask     asked
Task bash                                   ask     ask     ask     ask     asked
# with allow: the same rules and Read(.env)
Edit src/a.py                               deny    allow   allow   allow   allowed
Write new.py                                deny    ask     allow   allow   allowed
Bash npm run x                              allow   allow   allow   allow   allowed
Bash npm run x > out                        allow   ask     ask     allow   allowed
Bash npm run x && make                      allow   ask     ask     allow   allowed
Bash cd src && npm run x                    allow   allow   allow   allow   allowed
Bash X=1 npm run x                          allow   ask     ask     allow   allowed
Read .env                                   allow   allow   allow   allow   allowed
Write .git/config                           deny    ask     ask     ask     allowed
# deny beats ask beats allow
Edit src/a.py                               deny    deny    deny    deny    denied+allowed
Edit src/a.py                               deny    ask     ask     ask     asked+allowed
Bash npm test                               deny    deny    deny    deny    denied+asked+allowed
Bash npm test                               allow   ask     ask     ask     asked+allowed
"""
SAME = ["Read(docs/**)", "Edit(src/**)", "Bash(npm:*)", "Task(bash)"]
LAYERS = {"denied": Rules.of(deny=SAME), "asked": Rules.of(ask=SAME), "allowed": Rules.of(allow=[*SAME, "Read(.env)"])}
KINDS = {
    "Write": "write",
    "Edit": "write",
    "MultiEdit": "write",
    "Bash": "exec",
    "Task": "delegate",
    "Agent": "delegate",
}
KINDS |= {"BashOutput": "none", "KillBash": "none", "TodoWrite": "none"}


def table() -> list[tuple[str, str, str, str]]:
    rows = []
    for line in TABLE.strip().splitlines():
        if line.startswith("#"):
            continue
        call, rest = line[:44].strip(), line[44:].split()
        for mode, verdict in zip(("plan", "ask", "accept-edits", "bypass"), rest[:4], strict=True):
            rows.append((call, mode, verdict, rest[4] if len(rest) > 4 else ""))
    return rows


def effect(tool: str, target: str, workspace: Workspace) -> Effect:
    kind: Any = KINDS.get(tool, "read")
    return Effect(kind, str(workspace.resolve(target, workspace.root)) if kind in ("read", "write") else target)


@pytest.mark.parametrize(("call", "mode", "verdict", "layers"), table())
def test_the_policy(call: str, mode: str, verdict: str, layers: str, workspace: Workspace) -> None:
    tool, _, target = call.partition(" ")
    chosen = [LAYERS[name] for name in layers.split("+") if name]
    rules = Rules(
        *(tuple(one for layer in chosen for one in getattr(layer, kind)) for kind in ("allow", "ask", "deny"))
    )
    permissions = permit(workspace, mode=mode, book=RuleBook(workspace, rules), sandbox=Box())
    args = {"file_path": target} if KINDS.get(tool, "read") in ("read", "write") else {}
    decision = permissions.judge("main", TOOLS[tool], args, [effect(tool, target, workspace)])
    assert decision.verdict == verdict, decision.reason
    assert decision.reason or verdict == "allow"


def permit(workspace: Workspace, **options: Any) -> Permissions:
    if file := options.pop("rules_file", None):
        options["book"] = RuleBook(workspace, Rules(), file)
    return Permissions(workspace=workspace, trusted=True, **options)


def bash(permissions: Permissions, command: str) -> Decision:
    return permissions.judge("main", TOOLS["Bash"], {"command": command}, [Effect("exec", command)])


def test_a_file_outside_names_the_option_that_would_allow_it(workspace: Workspace) -> None:
    decision = permit(workspace).judge(
        "main", TOOLS["Read"], {"file_path": "/etc/passwd"}, [Effect("read", "/etc/passwd")]
    )
    assert decision.reason.endswith("its folder with --add-dir /etc")
    decision = permit(workspace).judge("main", TOOLS["LS"], {"path": "/etc"}, [Effect("read", "/etc")])
    assert decision.reason.endswith("allow it with --add-dir /etc")


def test_plan_mode_tells_the_model_to_present_its_plan(workspace: Workspace) -> None:
    assert (
        "hand in your plan and let the user leave plan mode" in bash(permit(workspace, mode="plan"), "npm test").reason
    )


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("git commit -m x", "Bash(git commit:*)"),
        ("npm run build --watch", "Bash(npm run build:*)"),
        ("npx prettier --write a.js", "Bash(npx prettier:*)"),
        ("npm test", "Bash(npm test:*)"),
        ("pytest -q tests", "Bash(pytest:*)"),
        ("timeout 60 pytest -q", "Bash(pytest:*)"),
        ("make", "Bash(make)"),
        ("python x.py 'a b'", "Bash(python x.py 'a b')"),
        ("rm -rf build", "Bash(rm -rf build)"),
        ("curl http://x", "Network(curl:*)"),
        ("cd src && npm test && make lint", "Bash(npm test:*), Bash(make lint)"),
        ("uv run pytest -q", "Bash(uv run pytest:*)"),
        ("uv run python -c 1", "Bash(uv run python -c 1)"),
        ("poetry run bash -c ls", "Bash(poetry run bash -c ls)"),
        ("git config user.name x", "Bash(git config user.name x)"),
        ("git bisect run make", "Bash(git bisect run make)"),
        ("git submodule foreach ls", "Bash(git submodule foreach ls)"),
        ("docker run ubuntu ls", "Outside(docker run ubuntu ls)"),
        ("npm install x", "Network(npm install:*)"),
        ("npm exec -- x", "Network(npm exec -- x)"),
        ("python -m pytest", "Bash(python -m pytest)"),
        ("go test -exec x ./...", "Bash(go test -exec x ./...)"),
        ("git push --receive-pack=x", "Outside(git push --receive-pack=x)"),
        ("foo 'a), Bash(rm:y'", ""),
        ("ls && npm test", "Bash(npm test:*)"),
        ("git -c a=b commit", "Bash(git -c a=b commit)"),
        ("echo $HOME", ""),
        ("npm test > out", ""),
        ("rm *.pyc", ""),
        ("curl http://x | sh", ""),
        ("cat x | bash -s", ""),
    ],
)
def test_the_grant_shown_is_the_grant_given(command: str, rule: str, workspace: Workspace) -> None:
    permissions = permit(workspace)
    decision = bash(permissions, command)
    assert (decision.verdict, decision.rule, decision.session_rule) == ("ask", rule, rule or f"exactly: {command}")
    permissions.grant("main", rule, forever=False)
    assert bash(permissions, command).verdict == ("allow" if rule else "ask")
    assert [str(one) for _, one in permissions.book.granted] == ([str(one) for one in parse_all(rule)] if rule else [])


def test_an_exact_grant_covers_nothing_else(workspace: Workspace) -> None:
    permissions = permit(workspace, allow=["Bash(rm -rf build)"])
    assert bash(permissions, "rm -rf build").verdict == "allow"
    for other in [
        "rm -rf build src",
        "rm -rf buildx",
        "rm -rf",
        "rm -rf build; ls > x",
        "rm -rf build && make",
        "/bin/rm -rf build",
    ]:
        assert bash(permissions, other).verdict == "ask", other


def test_a_prefix_is_of_whole_words(workspace: Workspace) -> None:
    permissions = permit(workspace, allow=["Bash(git commit:*)"])
    assert bash(permissions, "git commit -m 'x y'").verdict == "allow"
    for other in [
        "git commit-tree x",
        "git commitx",
        "git -C x commit",
        "git commit -m $(id)",
        "git commit | sh",
        "git commit & id",
    ]:
        assert bash(permissions, other).verdict == "ask", other


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("Bash(git push:*)", "git push --receive-pack=x"),
        ("Bash(git push:*)", "git push --rece x"),
        ("Bash(git fetch:*)", "git fetch --upload-pack x"),
        ("Bash(git rebase:*)", "git rebase -x ls main"),
        ("Bash(git rebase:*)", "git rebase --exec ls main"),
        ("Bash(git diff:*)", "git diff --output=x"),
        ("Bash(git grep:*)", "git grep -Osh foo"),
        ("Bash(go test:*)", "go test -exec sh ./..."),
        ("Bash(cargo test:*)", "cargo test --config x=y"),
        ("Bash(npm test:*)", "npm test --script-shell=x"),
        ("Bash(git rebase:*)", "git rebase -ix sh main"),
        ("Bash(git grep:*)", "git grep -nOsh x"),
        ("Bash(git bisect:*)", "git bisect run sh"),
        ("Bash(git submodule:*)", "git submodule foreach sh"),
        ("Bash(make test:*)", "make test -kf x"),
        ("Bash(make test:*)", "make test --f=x"),
        ("Bash(tox:*)", "tox exec -- sh"),
        ("Bash(tox:*)", "tox -x testenv.commands=sh"),
        ("Bash(mypy:*)", "mypy --python-exec=x src"),
        ("Bash(make:*)", "make SHELL=x"),
        ("Bash(make:*)", "make --eval=x"),
        ("Bash(make:*)", "make -f x"),
    ],
)
def test_a_prefix_covers_no_option_that_runs_something_else(rule: str, command: str, workspace: Workspace) -> None:
    assert bash(permit(workspace, allow=[rule]), command).verdict == "ask"
    assert bash(permit(workspace, allow=[f"Bash({command})"]), command).verdict == "allow"


def test_a_rule_does_not_speak_of_the_file_that_is_put_in(workspace: Workspace) -> None:
    for rule, command in [("Bash(git commit:*)", "git commit -F - < README.md"), ("Bash(sh)", "sh < README.md")]:
        decision = bash(permit(workspace, allow=[rule]), command)
        assert (decision.verdict, decision.rule) == ("ask", ""), command


@pytest.mark.parametrize("name", ["*.pem", "a), Bash(sh x), Read(b/c.pem", "x?.key", "a\nb.pem"])
@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_name_that_reads_as_other_rules_is_granted_once_only(
    name: str, kind: Literal["read", "write"], workspace: Workspace
) -> None:
    path = str(workspace.root / name)
    decision = Permissions(workspace=workspace).judge(
        "main", Facts("", kind), {"file_path": path}, [Effect(kind, path)]
    )
    assert (decision.verdict, decision.rule) == ("ask", "")


def test_an_edit_grant_is_for_that_file_only(workspace: Workspace) -> None:
    permissions = permit(workspace)
    target = effect("Write", "src/a.py", workspace)
    decision = permissions.judge("main", TOOLS["Write"], {"file_path": "src/a.py"}, [target])
    assert decision.rule == "Edit(./src/a.py)"
    permissions.grant("main", decision.rule, forever=False)
    assert permissions.judge("main", TOOLS["Edit"], {"file_path": "src/a.py"}, [target]).verdict == "allow"
    assert (
        permissions.judge(
            "main", TOOLS["Edit"], {"file_path": "src/b.py"}, [effect("Edit", "src/b.py", workspace)]
        ).verdict
        == "ask"
    )


def test_a_link_with_a_denied_name_is_denied(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("x")
    (tmp_path / ".env").symlink_to("real")
    space = Workspace(tmp_path)
    permissions = permit(space, deny=["Read(.env)"])
    assert (
        permissions.judge("main", TOOLS["Read"], {"file_path": ".env"}, [effect("Read", ".env", space)]).verdict
        == "deny"
    )


def test_a_rule_reaches_through_a_link_in_its_pattern(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    space = Workspace(tmp_path)
    permissions = permit(space, mode="bypass", deny=["Edit(link/**)"])
    assert permissions.judge("main", TOOLS["Write"], {}, [effect("Write", "real/x", space)]).verdict == "deny"


def test_a_protected_folder_behind_a_link_is_still_protected(tmp_path: Path) -> None:
    (tmp_path / "innocent").mkdir()
    (tmp_path / ".git").symlink_to("innocent")
    space = Workspace(tmp_path)
    decision = permit(space, mode="accept-edits").judge(
        "main", TOOLS["Write"], {}, [effect("Write", "innocent/hooks/x", space)]
    )
    assert decision.verdict == "ask"


def test_always_is_kept_for_this_folder_in_a_file_of_the_user_alone(tmp_path: Path, workspace: Workspace) -> None:
    file = tmp_path / "home" / "rules.json"
    permit(workspace, rules_file=file).grant("main/explore-1", "Bash(npm test:*), Bash(make)", forever=True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert json.loads(file.read_text())["allow"] == {str(workspace.root): ["Bash(npm test:*)", "Bash(make)"]}
    assert bash(permit(workspace, rules_file=file), "npm test && make").verdict == "allow"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = permit(Workspace(elsewhere), rules_file=file)
    assert bash(other, "npm test").verdict == "ask"
    other.grant("main", "Bash(ls x)", forever=True)
    assert set(json.loads(file.read_text())["allow"]) == {str(workspace.root), str(elsewhere)}


def test_a_broken_rules_file_is_said(tmp_path: Path, workspace: Workspace) -> None:
    file = tmp_path / "rules.json"
    for text in ["{", "[]", '{"allow": 1}', json.dumps({"allow": {str(workspace.root): ["Bash(a && b)"]}})]:
        file.write_text(text)
        with pytest.raises(UserError):
            permit(workspace, rules_file=file)


def test_children_share_grants_and_can_only_be_tighter(workspace: Workspace) -> None:
    parent = permit(workspace, mode="accept-edits")
    same, plan, loose = parent.child(), parent.child("plan"), parent.child("bypassPermissions")
    assert (same.mode, plan.mode, loose.mode, loose.child("acceptEdits").mode) == (
        "accept-edits", "plan", "accept-edits", "accept-edits",
    )  # fmt: skip
    parent.grant("main", "Bash(npm test:*)", forever=False)
    assert bash(same, "npm test").verdict == "allow"
    assert bash(plan, "npm test").verdict == "deny"
    same.grant("main/a-1", "Bash(make)", forever=False)
    assert bash(parent, "make").verdict == "allow"
    assert parent.book.granted[-1][0] == "main/a-1"
    parent.mode = "plan"
    assert {p.mode for p in (same, plan, loose)} == {"plan"}


def test_a_grant_forever_by_a_child_holds_for_the_tree(tmp_path: Path, workspace: Workspace) -> None:
    parent = permit(workspace, rules_file=tmp_path / "rules.json")
    parent.child().grant("main/a-1", "Bash(make)", forever=True)
    assert bash(parent, "make").verdict == "allow"
    assert bash(parent.child("ask"), "make").verdict == "allow"


class Box:
    """A sandbox that says what works."""

    def __init__(self, boxes: str = "both", refusal: str = "", *, network: bool = False, secret: str = "") -> None:
        self.boxes: Any = boxes
        self.refusal, self.network, self.secret = refusal, network, secret

    def hides_git(self, cwd: Path) -> str:
        return self.secret


# Where a command runs in each mode: ! asks first, - is refused.
PLACES = """
command                          ask        accept-edits  auto       plan   bypass
ls -la                           read       read          read       read   read
git log -p | head                read       read          read       read   read
for f in *.py; do wc -l $f; done read       read          read       read   read
.venv/bin/pytest -q              read       read          masked     read   write
npm run check:type:js            read       read          masked     read   write
npm run lint:fix                 write!     write!        masked     read   write
python -m pytest | tail -3       read       read          masked     read   write
cat .env                         read       read          read       read   read
mkdir -p src/new                 write!     write         masked     read   write
rm src/a.py                      write!     write!        masked     read   write
make                             write!     write!        masked     read   write
sh -c "$X"                       write!     write!        masked     read   write
git commit -m x                  write!     write!        masked     read   write
ls > out                         write!     write!        masked     read   write
echo x > out; cat out >> src/b   write!     write         masked     read   write
cat > new/a.py << 'E'⏎x⏎E        write!     write         masked     read   write
echo x > ../out                  write!     write!        masked     read   write
echo x > $HOME/out               write!     write!        masked     read   write
echo x > .git/config             write!     write!        masked     read   write
echo x > ~/out                   write!     write!        masked     read   write
mkdir ~/out                      write!     write!        masked     read   write
cd ..; echo x > out              write!     write!        masked     read   write
cat $(make) > out                write!     write!        masked     read   write
npm ci                           network!   network!      network!   read   network
curl https://x.y/z               network!   network!      network!   read   network
git push                         outside!   outside!      outside!   read   outside
docker ps                        outside!   outside!      outside!   read   outside
rm -rf /                         -          -             -          -      -
"""


def test_where_a_command_runs(workspace: Workspace) -> None:
    found = []
    for row in PLACES.strip().splitlines()[1:]:
        command = row[:33].strip()
        cells = []
        for mode in ("ask", "accept-edits", "auto", "plan", "bypass"):
            decision = bash(permit(workspace, mode=mode, sandbox=Box()), command.replace("⏎", "\n"))
            mark = {"allow": "", "ask": "!", "deny": "-"}[decision.verdict]
            cells.append("-" if mark == "-" else f"{decision.box}{mark}")
            assert decision.read_only is (cells[-1] == "read")
        found.append([command, *cells])
    assert found == [[row[:33].strip(), *row[33:].split()] for row in PLACES.strip().splitlines()[1:]]


def test_a_check_that_a_rule_allows_may_keep_its_caches(workspace: Workspace) -> None:
    permissions = permit(workspace, mode="ask", allow=["Bash(.venv/bin/pytest:*)"], sandbox=Box())
    boxes = {command: bash(permissions, command).box for command in (".venv/bin/pytest -q", "pytest -q", "ls")}
    assert boxes == {".venv/bin/pytest -q": "write", "pytest -q": "read", "ls": "read"}


@pytest.mark.parametrize(
    ("kind", "target", "verdicts", "rule"),
    [
        ("fetch", "https://docs.python.org/3/", "ask ask ask ask allow", "WebFetch(domain:docs.python.org)"),
        ("call", "mcp__git__push", "ask ask ask deny allow", "mcp__git__push"),
    ],
)
def test_what_leaves_the_box_by_other_tools_asks_in_every_mode_but_bypass(
    kind: Any, target: str, verdicts: str, rule: str, workspace: Workspace
) -> None:
    tool = TOOLS["WebFetch"] if kind == "fetch" else Facts(target)
    for mode, verdict in zip(("ask", "accept-edits", "auto", "plan", "bypass"), verdicts.split(), strict=True):
        judge = Permissions(workspace=workspace, mode=mode, trusted=True, sandbox=Box())
        decision = judge.judge("main", tool, {}, [Effect(kind, target)])
        assert decision.verdict == verdict, mode
        assert decision.rule == (rule if verdict == "ask" else "")
        judge.grant("main", rule, forever=False)
        again = judge.judge("main", tool, {}, [Effect(kind, target)])
        assert again.verdict == ("deny" if verdict == "deny" else "allow")
    denied = Permissions(workspace=workspace, mode="bypass", deny=[rule], sandbox=Box())
    assert denied.judge("main", tool, {}, [Effect(kind, target)]).verdict == "deny"


def test_auto_asks_where_the_box_does_not_hold(workspace: Workspace) -> None:
    for box in (Box("read"), Box(""), Box(network=True), None):
        assert bash(permit(workspace, mode="auto", sandbox=box), "make").verdict == "ask"
    assert bash(permit(workspace, mode="auto", sandbox=Box()), "echo " * 100_000).verdict == "ask", (
        "too long to look at"
    )


def test_rules_hold_in_every_box(workspace: Workspace) -> None:
    auto = permit(workspace, mode="auto", sandbox=Box(), deny=["Bash(curl:*)"], ask=["Bash(make:*)"])
    assert bash(auto, "curl x").verdict == "deny"
    assert bash(auto, "make").verdict == "ask"
    assert bash(permit(workspace, mode="plan", sandbox=Box(), deny=["Bash(curl:*)"]), "curl x").verdict == "deny"


def test_what_the_read_box_made_fail_is_asked_and_runs_in_the_write_box(workspace: Workspace) -> None:
    needs = [Effect("exec", "pytest -q", needs="write")]
    asked = permit(workspace, sandbox=Box()).judge("main", TOOLS["Bash"], {}, needs)
    assert (asked.verdict, asked.box, asked.rule) == ("ask", "write", "Bash(pytest:*)")
    assert permit(workspace, mode="auto", sandbox=Box()).judge("main", TOOLS["Bash"], {}, needs).box == "masked"
    assert permit(workspace, mode="plan", sandbox=Box()).judge("main", TOOLS["Bash"], {}, needs).box == "read"


@pytest.mark.parametrize(("need", "tool"), [("network", "Network"), ("outside", "Outside")])
def test_a_command_leaves_the_box_by_a_rule_that_names_it(need: Any, tool: str, workspace: Workspace) -> None:
    permissions = permit(workspace, sandbox=Box(), allow=["Bash(make:*)"])
    asked = permissions.judge("main", TOOLS["Bash"], {}, [Effect("exec", "make deploy", needs=need)])
    assert (asked.verdict, asked.box, asked.rule) == ("ask", need, f"{tool}(make deploy)")
    permissions.grant("main", asked.rule, forever=False)
    again = permissions.judge("main", TOOLS["Bash"], {}, [Effect("exec", "make deploy", needs=need)])
    assert (again.verdict, again.box) == ("allow", need)
    other = permissions.judge("main", TOOLS["Bash"], {}, [Effect("exec", "make deploy && make x", needs=need)])
    assert other.verdict == "ask"
    assert bash(permissions, "make x").box == "write"


def test_approving_what_needs_the_network_works_at_the_first_yes(workspace: Workspace) -> None:
    for command, rule in [
        ("npm ci", "Network(npm ci:*)"),
        ("git push origin main", "Outside(git push:*)"),
        ("docker ps -a", "Outside(docker ps:*)"),
    ]:
        permissions = permit(workspace, sandbox=Box())
        asked = bash(permissions, command)
        assert (asked.verdict, asked.rule) == ("ask", rule)
        permissions.grant("main", asked.rule, forever=False)
        assert (bash(permissions, command).verdict, bash(permissions, command).box) == ("allow", asked.box)


def test_git_asks_where_it_could_show_a_secret_or_is_not_trusted(workspace: Workspace) -> None:
    asked = bash(permit(workspace, sandbox=Box(secret=".env")), "git show HEAD")
    assert (asked.verdict, ".env" in asked.reason) == ("ask", True)
    assert (
        Permissions(workspace=workspace, sandbox=Box())
        .judge("main", TOOLS["Bash"], {}, [Effect("exec", "git log")])
        .verdict
        == "ask"
    )


@pytest.mark.parametrize("program", [".venv/bin/pytest", "./gradlew", "node_modules/.bin/jest", "tools/x.sh"])
def test_a_program_of_the_workspace_is_granted_as_it_is(program: str, tmp_path: Path) -> None:
    file = tmp_path / "shop" / program
    file.parent.mkdir(parents=True)
    file.write_text("#!/bin/sh\n")
    space, store = Workspace(tmp_path / "shop"), tmp_path / "rules.json"
    permissions = permit(space, rules_file=store)
    asked = bash(permissions, f"{program} test")
    assert asked.verdict == "ask"
    assert asked.rule.startswith(f"Bash({program}")
    permissions.grant("main", asked.rule, forever=True)
    assert bash(permissions, f"{program} test").verdict == "allow"
    assert bash(permit(space, rules_file=store), f"cd {file.parent} && ./{file.name} test").verdict == "allow"
    file.write_text("#!/bin/sh\nrm -rf ~\n")
    again = bash(permit(space, rules_file=store), f"{program} test")
    assert (again.verdict, again.reason) == ("ask", f"{program} changed since it was allowed")


def test_a_program_with_a_path_needs_a_rule_with_that_path(workspace: Workspace) -> None:
    permissions = permit(workspace, allow=["Bash(/opt/x/tool run:*)", "Bash(make)"])
    assert bash(permissions, "/opt/x/tool run a").verdict == "allow"
    assert bash(permissions, "./tool run a").verdict == bash(permissions, "./make").verdict == "ask"


def test_a_loop_is_granted_for_the_session_exactly_as_shown(workspace: Workspace) -> None:
    permissions = permit(workspace)
    loop = 'for f in *.py; do sed -i s/a/b/ "$f"; done; echo "), Bash(rm:*), Bash(x"'
    asked = bash(permissions, loop)
    assert (asked.verdict, asked.rule, asked.session_rule) == ("ask", "", f"exactly: {loop}")
    permissions.grant("main", asked.session_rule, forever=False)
    assert bash(permissions, loop).verdict == "allow"
    assert permissions.book.granted == []
    assert bash(permissions, loop + " ").verdict == bash(permissions, "rm y").verdict == "ask"


def test_the_reason_shown_is_that_of_the_part_that_asks(workspace: Workspace) -> None:
    asked = bash(permit(workspace, sandbox=Box()), "make all 2>&1 | tail -15")
    assert asked.reason == "make all may change something"
    assert [part["verdict"] for part in asked.display["parts"]] == ["ask", "allow"]


def test_nobody_is_nagged_all_day(workspace: Workspace) -> None:
    lines = Path(__file__).with_name("everyday.txt").read_text().split("\n", 1)[1].split("\n")
    commands = [line for line in lines if line]
    assert len(commands) == 163
    ask = permit(workspace, sandbox=Box())
    assert sum(bash(ask, command).verdict != "allow" for command in commands) <= 40
    auto = permit(workspace, mode="auto", sandbox=Box())
    left = [decision.box for command in commands if (decision := bash(auto, command)).verdict != "allow"]
    assert set(left) == {"network", "outside"}
    for command in commands:
        ask.grant("main", bash(ask, command).session_rule, forever=False)
    assert [command for command in commands if bash(ask, command).verdict != "allow"] == []  # each is asked once


@pytest.mark.parametrize(
    ("command", "box"),
    [
        ("npx eslint lib", "read"),
        ("npx tsc --noEmit", "read"),
        ("npx prettier --write lib", "write"),
        ("npx create-next-app x", "network"),
        ("npx -y eslint@9 lib", "network"),
        ("npx -p eslint -c 'rm -r lib'", "network"),
    ],
)
def test_npx_of_what_projects_have_installed_is_the_program_itself(
    command: str, box: str, workspace: Workspace
) -> None:
    assert bash(permit(workspace, sandbox=Box()), command).box == box


def test_a_required_sandbox_that_is_missing_refuses_every_command(workspace: Workspace) -> None:
    permissions = permit(workspace, mode="bypass", sandbox=Box("", "a sandbox is required and there is none"))
    assert bash(permissions, "ls").verdict == "deny"
    assert permissions.judge("main", TOOLS["Read"], {}, [effect("Read", "README.md", workspace)]).verdict == "allow"


def test_a_question_shows_each_part_with_its_verdict(workspace: Workspace) -> None:
    display = bash(permit(workspace, allow=["Bash(make)"]), "ls && make && npm test").display
    assert [(part["text"], part["verdict"]) for part in display["parts"]] == [
        ("ls", "allow"),
        ("make", "allow"),
        ("npm test", "ask"),
    ]
    assert display["kind"] == "command"


def test_only_what_is_known_to_read_may_run_beside_others(workspace: Workspace) -> None:
    permissions = permit(workspace, mode="bypass", allow=["Bash(make)"])
    assert bash(permissions, "ls").read_only
    assert not bash(permissions, "make").read_only
    assert permissions.judge("main", TOOLS["Read"], {}, [effect("Read", "README.md", workspace)]).read_only
    assert not permissions.judge("main", TOOLS["Write"], {}, [effect("Write", "x", workspace)]).read_only


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Nope",
        "Bash(",
        "Bash()",
        "Bash(git * x)",
        "Bash('x)",
        "Bash(a && b)",
        "Bash(a | b)",
        "rm -rf",
        "Read(x",
        "TodoWrite(x)",
        "Bash(*x:*)",
    ],
)
def test_a_text_that_is_no_rule_says_what_is_allowed(text: str) -> None:
    with pytest.raises(UserError) as caught:
        check_tools([parse(text)], TOOLS)
    assert caught.value.hint


@pytest.mark.parametrize(
    "text",
    ["Bash", "Bash(git commit:*)", "Bash(npm run test)", "Edit(src/**)", "Read(.env)", "Task(explore)", "Read(~/x)"],
)
def test_a_rule_reads_as_it_is_written(text: str) -> None:
    assert str(parse(text)) == text


def test_a_rule_may_call_a_tool_as_claude_code_does() -> None:
    assert [str(parse(text)) for text in ("KillShell", "AskUserQuestion")] == ["KillBash", "AskUser"]
    check_tools([parse("KillShell"), parse("Agent(explore)")], TOOLS)


@given(st.text(max_size=40))
def test_any_text_is_a_rule_or_a_user_error(text: str) -> None:
    try:
        rule = parse(text)
    except UserError:
        return
    assert parse(str(rule)) == rule


def test_modes_are_known_by_the_names_other_agents_use() -> None:
    assert [mode_of(t) for t in ("default", "acceptEdits", "bypassPermissions", "PLAN", "accept_edits")] == [
        "ask", "accept-edits", "bypass", "plan", "accept-edits",
    ]  # fmt: skip
    assert tighter("plan", "bypass") == "plan"
    with pytest.raises(UserError):
        mode_of("yolo")


def test_a_link_nobody_may_look_at_crashes_nothing(workspace: Workspace) -> None:
    """Of a process of another user /proc shows links that cannot be read."""
    permit = Permissions(workspace=workspace, mode="ask", deny=["Read(.env)"], trusted=True)
    assert permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", "cat /proc/1/exe")]).verdict == "ask"


@pytest.mark.parametrize("mode", ["plan", "ask", "accept-edits", "bypass"])
def test_half_a_character_in_a_command_is_refused_and_crashes_nothing(mode: str, workspace: Workspace) -> None:
    permit = Permissions(workspace=workspace, mode=mode, allow=["Bash", "Network"], deny=["Read(x)"], trusted=True)
    for command in ("printf QZ\ud83d", "cat \udc00", "ls '\udcff'"):
        decision = permit.judge("main", TOOLS["Bash"], {"command": command}, [Effect("exec", command)])
        assert (decision.verdict, "half a character" in decision.reason) == ("deny", True)


@pytest.mark.parametrize(
    "command",
    [
        "cd src && cat ../docs/guide.md",
        "cat doc?/guide.md",
        "cat docs/gui*",
        "git show HEAD:docs/guide.md",
        "git -C src diff -- ../docs/guide.md",
        "grep -fdocs/guide.md README.md",
    ],
)
def test_a_denied_path_is_found_however_a_command_names_it(command: str, workspace: Workspace) -> None:
    assert bash(permit(workspace, mode="bypass", deny=["Read(docs/guide.md)"]), command).verdict == "deny"


@pytest.mark.parametrize("command", ["g\\it log", 'g""it log', "'g'it status", "(g\\it log)"])
def test_git_is_held_back_however_it_is_spelled(command: str, workspace: Workspace) -> None:
    permit = Permissions(workspace=workspace, trusted=False, sandbox=Box())
    assert permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", command)]).verdict == "ask"


@pytest.mark.parametrize("command", ["grep -re. x", "grep -rf.env .", "grep 'a\nb' -r .", "git branch -r"])
def test_a_search_of_folders_may_read_what_a_rule_denies(command: str, workspace: Workspace) -> None:
    permit = Permissions(workspace=workspace, mode="bypass", deny=["Read(.env)"], trusted=True)
    assert permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", command)]).verdict == "deny"


def test_a_function_that_starts_another_in_the_background_for_ever_never_runs(workspace: Workspace) -> None:
    permit = Permissions(workspace=workspace, mode="bypass", trusted=True)
    bomb = "f(){ h; f; }; h(){ sleep 9 & }; f"
    assert permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", bomb)]).verdict == "deny"
