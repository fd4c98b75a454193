"""Names of files and folders that look like secrets: asked about, masked in boxes, left out of searches."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

_SECRETS = re.compile(
    r"\.env(?:\..+)?|\.?env\.local|.*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|asc)|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?"
    r"|\.netrc|_netrc|\.npmrc|\.pypirc|\.git-credentials|\.htpasswd|\.pgpass|\.my\.cnf|\.s3cfg|\.boto|\.dockercfg"
    r"|credentials(?:\.\w+)?|secrets?\.(?:ya?ml|json|toml|ini|env|txt)|service-?account.*\.json|\.vault-token|terraform\.tfstate",
    re.DOTALL,
)
# What a search of whole folders leaves out: the same names, as ripgrep spells them.
SECRET_GLOBS = (
    ".env",
    ".env.*",
    "*.{pem,key,p12,pfx,jks,keystore,kdbx,ppk,asc}",
    "id_{rsa,dsa,ecdsa,ed25519}*",
    ".{netrc,npmrc,pypirc,git-credentials,htpasswd,pgpass,my.cnf,s3cfg,boto,dockercfg,vault-token}",
    "{_netrc,terraform.tfstate,credentials,credentials.json,secrets.*,service-account*.json,serviceaccount*.json}",
    ".{ssh,aws,gnupg,azure,kube,docker,password-store}/",
)
_HARMLESS_ENV = re.compile(r"\.env\.(?:example|sample|template|dist|defaults?|test\.example|schema)")
_SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store"})
_FOLDED_AWAY = re.compile(r"[. ]$|::", re.MULTILINE)
_SECRET_LINE = re.compile(
    rf"^(?:{_SECRETS.pattern}|{'|'.join(map(re.escape, sorted(_SECRET_FOLDERS)))})$", re.MULTILINE
)


def sensitive(path: Path) -> bool:
    """Whether a path looks like one that holds secrets, so that reading it is asked."""
    return any(fold_name(part) in _SECRET_FOLDERS for part in path.parts) or sensitive_name(path.name)


def sensitive_name(name: str) -> bool:
    """Whether a file or folder of this name looks like one that holds secrets, wherever it lies."""
    name = fold_name(name)
    return name in _SECRET_FOLDERS or bool(_SECRETS.fullmatch(name) and not _HARMLESS_ENV.fullmatch(name))


def sensitive_names(names: Sequence[str]) -> list[str]:
    """Those of a folder's names that look like secrets; most folders have none, which is seen at once."""
    text = "\n".join(names).casefold()
    plain = text.isascii() and text.count("\n") < len(names) and not _FOLDED_AWAY.search(text)
    if plain and not _SECRET_LINE.search(text):
        return []
    return [name for name in names if sensitive_name(name)]


def fold_name(name: str) -> str:
    """A name as the most forgiving file system compares it: no case, no ignorable characters, no trailing dots."""
    if name.isascii():
        folded = name.casefold()
    else:
        kept = "".join(char for char in name if unicodedata.category(char) not in ("Cf", "Mn", "Cc"))
        folded = unicodedata.normalize("NFKC", kept).casefold()
    folded = folded.rstrip(". ") or folded
    return ".git" if re.fullmatch(r"git~\d+", folded) else folded.partition("::")[0]
