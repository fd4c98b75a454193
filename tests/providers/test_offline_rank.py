"""How places are ranked for a description: one small tree, questions as people type them, the place that is meant."""

from __future__ import annotations

import pytest

from cowork.providers.offline.languages import Line
from cowork.providers.offline.words import either, rank_files, rank_places, terms

TREE = {
    "src/http.py": '''
class Headers:
    """A mapping of header names."""

    def cookies(self):
        """Cookies parsed out of the header."""
        return parse(self.raw)

def send_static(path, root):
    """Stream a file to the client."""
    return open(root + path)

def escape(text):
    return text.replace("<", "&lt;")

MAX_REDIRECTS = 30

def follow(response):
    # A redirect to another host drops the password.
    while response.is_redirect:
        response = get(response.location)
''',
    "src/retry.py": '''
def should_retry(error, attempt):
    """Whether another attempt is worth it."""

def wait_exponential(attempt):
    """Seconds to sleep before the next attempt."""
''',
    "lib/view.js": """
/**
 * Look up the template engine by the file's extension.
 */
View.prototype.lookup = function lookup(name) {
  const cookies = 1;
}
""",
    "tests/test_http.py": '''
def test_cookies_are_parsed_out_of_the_header():
    """Cookies parsed out of the header."""
''',
}


def lines() -> dict[str, list[Line]]:
    return {path: [Line(path, n, row) for n, row in enumerate(text.split("\n"), 1)] for path, text in TREE.items()}


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("cookies parsed out of the header", "cookies"),
        ("sends static files to the client", "send_static"),
        ("decide whether to retry", "should_retry"),
        ("html special characters escaped", "escape"),
        ("exponential backoff computed", "wait_exponential"),
        ("template engine looked up by extension", "lookup"),
        ("maximum number of redirects", "MAX_REDIRECTS"),
        ("redirects followed", "follow"),
    ],
)
def test_the_place_that_is_meant_comes_first(question: str, name: str) -> None:
    assert rank_places(terms(question), lines())[0].at.name == name


def test_a_file_that_speaks_of_it_comes_before_its_test_and_before_others() -> None:
    found = rank_files(
        terms("cookies parsed out of the header"), [each for rows in lines().values() for each in rows], []
    )
    assert found[0] == "src/http.py"
    assert found.index("tests/test_http.py") > 0


def test_the_evidence_names_only_words_that_stand_there() -> None:
    best = rank_places(terms("cookies read out of the header by magic"), lines())[0]
    assert best.at.name == "cookies"
    assert set(best.named) == {"cookies", "header"}
    assert "magic" not in best.said
    assert best.label.endswith("`Headers.cookies`")


def test_other_spellings_are_searched_for() -> None:
    asked = terms("where is the configuration loaded")
    assert "config" in either(asked)
    assert "read" not in either(asked)
    assert asked[0].fits(["config"]) > 0
