"""A workspace with all a hostile or an honest command may want to touch."""

from __future__ import annotations

import os
import pwd
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cowork.core.workspace import Workspace
from cowork.permissions.sandbox.box import Sandbox

EVIL_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch pwned\n"


def yard_base(prefix: str) -> Path:
    """A new folder that boxes do not cover by a /var/tmp of their own, where one can be made."""
    home = os.path.realpath(pwd.getpwuid(os.geteuid()).pw_dir)  # HOME is that of the tests
    places = ["/srv", "/opt", *([home] if not home.startswith(("/tmp/", "/var/tmp/", "/run/")) else []), "/var/tmp"]
    return Path(tempfile.mkdtemp(prefix=prefix, dir=next(place for place in places if os.access(place, os.W_OK))))


@contextmanager
def acting_as(user: int) -> Iterator[None]:
    """Look at the file system as another user does, so that a sandbox is put together as for them."""
    Sandbox(workspace=Workspace(Path("/var/empty")), environ=os.environ).status()  # tries boxes once, as ourselves
    me = os.geteuid()
    if user != me:
        os.seteuid(user)
    try:
        yield
    finally:
        if user != me:
            os.seteuid(me)


def until_made(run: Callable[[], str]) -> str:
    """What a command in a box prints; again, as Bash does, where what was to be hidden went before it was mounted."""
    said = ""
    for _ in range(5):
        said = run()
        if not said.startswith("bwrap: Can't"):
            break
    return said


def make_shop(base: Path) -> Path:
    """A repository with code, notes, secrets, links out of it, and two hostile repositories inside."""
    root = base / "shop"
    outside = base / "outside"
    for folder in (
        root / "src",
        root / "docs",
        outside,
        root / "evilrepo/.git",
        root / "barerepo",
        root / "nested/deep",
    ):
        folder.mkdir(parents=True)
    for name, text in {
        "README.md": "# Shop\nfoo bar\n",
        "src/a.py": "def main():\n    return 'foo.bar'\n",
        "src/b.py": "import a\n",
        "docs/guide.md": "read me\n",
        "package.json": '{"name": "shop", "scripts": {"test": "true"}, "dependencies": {}}\n',
        "file with spaces.txt": "x\n",
        "-n.txt": "looks like a flag\n",
        ".env": "API_KEY=sk-planted\n",
        "secret.pem": "-----BEGIN\n",
        "nested/deep/.env": "API_KEY=sk-deep\n",
        ".gitignore": ".env\nsecret.pem\n",
        "expire": "a word of git reflog\n",
    }.items():
        (root / name).write_text(text)
    (outside / "passwd").write_text("root:x\n")
    os.mkfifo(root / "trap.pipe")
    (root / "outside.txt").symlink_to(outside / "passwd")
    (root / "outdir").symlink_to(outside)
    (root / "loop").symlink_to("nested/deep")
    (root / "evilbelow/.git").mkdir(parents=True)  # no repository, so git would go on to the one above
    (root / "evilbelow/.git/config").write_text(EVIL_CONFIG)
    (root / "evilrepo/.git/config").write_text(EVIL_CONFIG)
    (root / "barerepo/config").write_text(EVIL_CONFIG)
    (root / "barerepo/HEAD").write_text("ref: refs/heads/main\n")
    (root / "barerepo/objects").mkdir()
    (root / "barerepo/refs").mkdir()
    environ = {"PATH": os.environ["PATH"], "HOME": str(base), "GIT_CONFIG_NOSYSTEM": "1"}
    for words in ("init -q -b main", "add README.md src", "-c user.name=a -c user.email=a@b commit -q -m first"):
        subprocess.run(["git", *words.split()], cwd=root, env=environ, check=True, timeout=30)
    return root


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_shop(tmp_path_factory.mktemp("permissions"))


@pytest.fixture
def workspace(shop: Path) -> Workspace:
    return Workspace(shop)
