"""Who wins: defaults, user, project, environment, flags; and what a project may never do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cowork.config import key as merge
from cowork.config import load
from cowork.config.key import Key
from cowork.config.sections import KEYS
from cowork.core.errors import UserError


def test_each_layer_beats_the_one_before_and_says_so(place: Any) -> None:
    name = "limits.max_turns"
    seen = []

    def look(**rest: Any) -> None:
        config = place.load(**rest)
        seen.append((config.limits.max_turns, config.origin(name)))

    look()
    place.user("[limits]\nmax_turns = 50\n")
    look()
    place.own("# ours\n\n[limits]\nmax_turns = 40\n")
    look()
    look(environ={"COWORK_LIMITS_MAX_TURNS": "60"})
    look(environ={"COWORK_LIMITS_MAX_TURNS": "60"}, flags={name: 70})
    assert seen == [
        (0, "default"),
        (50, "~/.config/cowork/config.toml:2"),
        (40, f"{place.project_file}:4"),
        (60, "environment COWORK_LIMITS_MAX_TURNS"),
        (70, "flag --max-turns"),
    ]


def test_an_untrusted_project_changes_nothing_and_is_not_even_read(place: Any) -> None:
    place.own("this is not toml")
    assert place.load(trusted=False).values["limits.max_turns"] == 0
    with pytest.raises(UserError):
        place.load(trusted=True)


def test_bare_ignores_both_files_but_a_named_one_counts(place: Any, tmp_path: Any) -> None:
    place.user("[limits]\nmax_turns = 5\n").own("[limits]\nmax_turns = 4\n")
    assert place.load(bare=True).limits.max_turns == 0
    other = tmp_path / "ci.toml"
    other.write_text("limits.max_turns = 9")
    assert place.load(bare=True, config_file=other).limits.max_turns == 9
    assert place.load(config_file=other, trusted=False).limits.max_turns == 9


def test_a_named_file_that_is_missing_is_an_error(place: Any, tmp_path: Any) -> None:
    with pytest.raises(UserError, match=r"absent\.toml does not exist"):
        place.load(config_file=tmp_path / "absent.toml")


def test_cowork_home_moves_the_user_file(place: Any, tmp_path: Any) -> None:
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved/config.toml").write_text("ui.keys = 'vi'")
    assert place.load(environ={"COWORK_HOME": str(tmp_path / "moved")}).ui.keys == "vi"


def test_rules_of_all_layers_add_up_and_keep_their_order(place: Any) -> None:
    place.user("[permissions]\ndeny = ['Read(.env)']\nallow = ['Bash(ls:*)']\n")
    place.own("[permissions]\ndeny = ['Bash(curl:*)', 'Read(.env)']\nask = ['Edit(db/**)']\n")
    config = place.load(
        environ={"COWORK_PERMISSIONS_DENY": "Bash(rm:*),Edit(a,b)"}, flags={"permissions.allow": ("Edit",)}
    )
    assert config.permissions.deny == ("Read(.env)", "Bash(curl:*)", "Bash(rm:*)", "Edit(a,b)")
    assert config.permissions.ask == ("Edit(db/**)",)
    assert config.permissions.allow == ("Bash(ls:*)", "Edit")
    assert config.origin("permissions.allow") == "~/.config/cowork/config.toml:3, flag --allow"


@pytest.mark.parametrize(
    ("user", "project", "name", "expected"),
    [
        ("", "permissions.mode = 'bypass'", "permissions.mode", "ask"),
        ("permissions.mode = 'accept-edits'", "permissions.mode = 'ask'", "permissions.mode", "ask"),
        ("permissions.mode = 'bypass'", "permissions.mode = 'plan'", "permissions.mode", "plan"),
        ("", "sandbox.mode = 'off'", "sandbox.mode", "auto"),
        ("", "sandbox = 'required'", "sandbox.mode", "required"),
        ("", "sandbox.network = true", "sandbox.network", False),
        ("sandbox.network = true", "sandbox.network = false", "sandbox.network", False),
        ("", "sandbox.auto_allow = true", "sandbox.auto_allow", False),
        ("", "limits.max_cost_usd = 2", "limits.max_cost_usd", 2.0),
        ("limits.max_cost_usd = 1", "limits.max_cost_usd = 2", "limits.max_cost_usd", 1.0),
        ("limits.max_cost_usd = 1", "limits.max_cost_usd = 0", "limits.max_cost_usd", 1.0),
        ("", "agent.subagent.output_max_size = 5000000", "agent.subagent.output_max_size", 0),
        ("", "agent.subagent.output_max_size = 2000", "agent.subagent.output_max_size", 2000),
        ("", "agent.subagent.max_depth = 9", "agent.subagent.max_depth", 3),
        ("", "agent.subagent.max_depth = 1", "agent.subagent.max_depth", 1),
        ("", "agent.subagent.allow_nesting = true", "agent.subagent.allow_nesting", False),
        ("", "agent.subagent.default_tools = 'read-only'", "agent.subagent.default_tools", "read-only"),
        ("", "tools.enabled = ['Read', 'Grep']", "tools.enabled", ("Read", "Grep")),
        ("tools.enabled = ['Read']", "tools.enabled = ['Read', 'Bash']", "tools.enabled", ("Read",)),
        ("tools.disabled = ['Write']", "tools.disabled = ['Bash']", "tools.disabled", ("Write", "Bash")),
    ],
)
def test_a_project_can_tighten_and_never_loosen(place: Any, user: str, project: str, name: str, expected: Any) -> None:
    config = place.user(user).own(project).load()
    assert config.values[name] == expected


def test_a_rule_at_the_top_of_a_repository_holds_in_its_folders(place: Any) -> None:
    (place.project / ".git").mkdir()
    below = place.project / "src/deep"
    (below / ".cowork").mkdir(parents=True)
    place.own("permissions.deny = ['Bash(rm:*)']\nlimits.max_turns = 3\n")
    (below / ".cowork/config.toml").write_text("permissions.deny = ['Edit']\nlimits.max_turns = 9\n")
    environ = {"HOME": str(place.home)}
    config = load(cwd=below, environ=environ, trusted=True)
    assert config.permissions.deny == ("Bash(rm:*)", "Edit")
    assert config.limits.max_turns == 3
    (place.project.parent / ".cowork").mkdir()
    (place.project.parent / ".cowork/config.toml").write_text("not toml, and outside the repository")
    assert load(cwd=below, environ=environ, trusted=True).limits.max_turns == 3


_BOUND = [key for key in KEYS.values() if key.project not in ("never", "free")]


@given(st.data())
def test_no_project_value_whatever_makes_anything_looser(data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(_BOUND))
    user, project = data.draw(_value(key)), data.draw(_value(key))
    result = merge.tighten(key, merge.normalize(key, user), project)
    before, after = _looseness(key, merge.normalize(key, user)), _looseness(key, result)
    assert after <= before
    assert merge.tighten(key, result, project) == result, "a second time changes nothing"


def _value(key: Key) -> st.SearchStrategy[Any]:
    if key.kind == "bool":
        return st.booleans()
    if key.kind in ("int", "float"):
        low = int(key.low or 0) + 1
        numbers = st.integers(low, int(min(key.high or 1e6, 1e6)))
        return numbers | st.just(0) if key.zero else numbers
    if key.stricter:
        return st.sampled_from(key.stricter)
    return st.lists(st.sampled_from(["Read", "Bash", "Edit", "LS"]), max_size=3, unique=True)


def _looseness(key: Key, value: Any) -> Any:
    """How much a value lets happen; what compares as less is tighter."""
    if key.project == "lower":
        return key.zero_limit if value == 0 and key.zero else value
    if key.project == "stricter":
        return -key.stricter.index(value)
    if key.project == "narrow":
        return frozenset(value or ("Read", "Bash", "Edit", "LS"))
    if key.project == "add":
        return frozenset(("Read", "Bash", "Edit", "LS")) - frozenset(value)
    return value


def test_a_narrowing_that_leaves_nothing_does_not_mean_everything(place: Any) -> None:
    config = place.user("tools.enabled = ['Read']").own("tools.enabled = ['Bash']").load()
    assert config.tools.enabled == ("Read",), "an empty list would mean all tools"
    assert any("tools.enabled" in note for note in config.notes)


def test_a_loosening_that_does_not_count_is_noted(place: Any) -> None:
    config = place.own("permissions.mode = 'bypass'\n").load()
    assert config.notes == (
        f'{place.project_file}:1 permissions.mode = "bypass" has no effect: a project may only tighten',
    )
    assert config.origin("permissions.mode") == "default"


_SAMPLES = {
    "str": '"offline"',
    "int": "4096",
    "float": "5",
    "bool": "true",
    "tuple[str, ...]": '["x"]',
    "dict[str, str]": '{a = "b"}',
    "Effort": '"low"',
}
_NEVER = sorted(name for name, key in KEYS.items() if key.project == "never")


@pytest.mark.parametrize("name", _NEVER)
def test_a_project_that_sets_what_is_the_users_stops_the_run(place: Any, name: str) -> None:
    place.own(f"{name} = {_SAMPLES[KEYS[name].kind]}\n")
    with pytest.raises(UserError, match=r"config\.toml:1 .* cannot be set by a project") as caught:
        place.load()
    assert name in caught.value.message
    assert caught.value.exit_code == 2


def test_what_a_project_may_never_set_is_this_list() -> None:
    """A key that leaves the list changes what a repository can do to its readers."""
    must = {
        "permissions.allow",
        "permissions.add_dirs",
        "log.file",
        "log.level",
        "knowledge.files",
        "session.enabled",
        "session.checkpoints",
        "session.retention_days",
        "session.output_days",
        *(f"models.{role}.{field}" for role in ("main", "light") for field in _MODEL_FIELDS),
    }
    assert must <= set(_NEVER)
    assert not [name for name, key in KEYS.items() if key.project == "free"]


_MODEL_FIELDS = ("provider", "model", "base_url", "api_key_env", "headers", "script", "transport", "thinking")


def test_a_project_cannot_set_prices(place: Any) -> None:
    place.own('[pricing."gpt-5.5"]\ninput = 0\n')
    with pytest.raises(UserError, match="cannot be set by a project"):
        place.load()


@pytest.mark.parametrize("value", ['["Bash(echo ${LLM_API_KEY})"]', '["ok", "${HOME}"]'])
def test_a_project_cannot_read_the_environment(place: Any, value: str) -> None:
    place.own(f"permissions.deny = {value}\n")
    with pytest.raises(UserError, match="refused in project files"):
        place.load(environ={"LLM_API_KEY": "sk-secret-value"})


@pytest.mark.parametrize(
    "text",
    ["permissions.deny = ['Bash(rm:*)'\n", "permissions.deny = 'Bash(rm:*)'\n", "permissions.denny = []\n", "\xff\xfe"],
)
def test_a_project_file_with_a_mistake_stops_the_run_instead_of_dropping_its_rules(place: Any, text: str) -> None:
    place.project_file.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError):
        place.load()


def test_the_environment_spells_every_type(place: Any) -> None:
    config = place.load(
        environ={
            "COWORK_SANDBOX_NETWORK": "yes",
            "COWORK_COMPACTION_THRESHOLD": "0.5",
            "COWORK_TOOLS_DISABLED": "Bash, Write\nEdit",
            "COWORK_MODELS_MAIN_THINKING": "4096",
            "COWORK_UI_THEME": "light",
            "COWORK_LOG": "cowork.subagents=debug",
        }
    )
    assert config.sandbox.network is True
    assert config.compaction.threshold == 0.5
    assert config.tools.disabled == ("Bash", "Write", "Edit")
    assert config.models.main.thinking == 4096
    assert config.ui.theme == "light"
    assert config.log.level == "cowork.subagents=debug"


def test_a_wrong_variable_is_named(place: Any) -> None:
    with pytest.raises(UserError) as caught:
        place.load(environ={"COWORK_LIMITS_MAX_TURNS": "many"})
    assert caught.value.message == (
        'config: environment COWORK_LIMITS_MAX_TURNS limits.max_turns must be a whole number, it is "many"'
    )


def test_an_empty_variable_sets_nothing(place: Any) -> None:
    assert place.load(environ={"COWORK_UI_THEME": "", "LLM_PROVIDER": ""}).ui.theme == "auto"


def test_no_two_keys_share_a_variable() -> None:
    variables = [key.variable for key in KEYS.values()]
    assert len(set(variables)) == len(variables)
    assert not {"COWORK_HOME", "COWORK_LOG"} & set(variables)


def test_settings_cannot_be_changed_after_they_are_made(place: Any) -> None:
    with pytest.raises(AttributeError):
        place.load().ui.theme = "dark"
