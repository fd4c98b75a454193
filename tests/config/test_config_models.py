"""Which model is meant, which key it gets, and that no key is ever seen."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from cowork.config.render import setting_rows
from cowork.core.errors import UserError

KEY = "sk-ant-very-secret-123"


def facts(spec: Any) -> tuple[str, str, str, str]:
    return spec.provider, spec.model, spec.base_url, spec.api_key


@pytest.mark.parametrize(
    ("environ", "main", "light"),
    [
        ({}, ("offline", "offline", "", ""), ("offline", "offline", "", "")),
        (
            {"ANTHROPIC_API_KEY": "a"},
            ("anthropic", "claude-sonnet-5-5", "", "a"),
            ("anthropic", "claude-haiku-5-5", "", "a"),
        ),
        (
            {"ANTHROPIC_API_KEY": "a", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"},
            ("anthropic", "claude-sonnet-5-5", "http://127.0.0.1:9", "a"),
            ("anthropic", "claude-haiku-5-5", "http://127.0.0.1:9", "a"),
        ),
        ({"OPENAI_API_KEY": "o"}, ("openai", "gpt-6-sol", "", "o"), ("openai", "gpt-6-luna", "", "o")),
        (
            {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a"},
            ("anthropic", "claude-sonnet-5-5", "", "a"),
            ("anthropic", "claude-haiku-5-5", "", "a"),
        ),
        (
            {"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "http://localhost:1/v1", "LLM_MODEL_ID": "qwen"},
            ("openai-chat", "qwen", "http://localhost:1/v1", "o"),
            ("openai-chat", "qwen", "http://localhost:1/v1", "o"),
        ),
        (
            {"LLM_PROVIDER": "openai", "LLM_MODEL_ID": "m", "LLM_API_KEY": "k", "LLM_BASE_URL": "http://h/v1"},
            ("openai", "m", "http://h/v1", "k"),
            ("openai", "m", "http://h/v1", "k"),
        ),
        (
            {"LLM_MODEL_ID": "m", "LLM_API_KEY": "k", "LLM_BASE_URL": "http://h/v1"},
            ("openai-chat", "m", "http://h/v1", "k"),
            ("openai-chat", "m", "http://h/v1", "k"),
        ),
        (
            {
                "LLM_PROVIDER": "anthropic",
                "LLM_MODEL_ID": "big",
                "LLM_API_KEY": "k",
                "LLM_BASE_URL": "http://one",
                "LIGHT_LLM_MODEL_ID": "small",
                "LIGHT_LLM_API_KEY": "l",
                "LIGHT_LLM_BASE_URL": "http://two",
            },
            ("anthropic", "big", "http://one", "k"),
            ("anthropic", "small", "http://two", "l"),
        ),
        (
            {"LLM_PROVIDER": "anthropic", "LLM_MODEL_ID": "big", "LLM_API_KEY": "k", "LIGHT_LLM_MODEL_ID": "small"},
            ("anthropic", "big", "", "k"),
            ("anthropic", "small", "", "k"),
        ),
        (
            {"LLM_API_KEY": KEY},
            ("anthropic", "claude-sonnet-5-5", "", KEY),
            ("anthropic", "claude-haiku-5-5", "", KEY),
        ),
        ({"LLM_API_KEY": "sk-x"}, ("openai", "gpt-6-sol", "", "sk-x"), ("openai", "gpt-6-luna", "", "sk-x")),
        (
            {"LLM_MODEL_ID": "gpt-5.5", "ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"},
            ("openai", "gpt-5.5", "", "o"),
            ("openai", "gpt-5.5", "", "o"),
        ),
    ],
)
def test_the_environment_chooses_the_models(
    place: Any, environ: dict[str, str], main: tuple[str, ...], light: tuple[str, ...]
) -> None:
    config = place.load(environ=environ)
    assert (facts(config.model("main")), facts(config.model("light"))) == (main, light)


def test_light_falls_back_to_main_when_the_main_model_was_chosen_by_hand(place: Any) -> None:
    config = place.load(environ={"ANTHROPIC_API_KEY": "a", "LLM_MODEL_ID": "claude-opus-5"})
    assert not config.has_light
    assert config.model("light") == config.model("main")


def test_the_key_of_main_is_not_sent_to_a_host_that_only_light_uses(place: Any) -> None:
    config = place.load(
        environ={
            "LLM_PROVIDER": "openai-chat",
            "LLM_MODEL_ID": "m",
            "LLM_API_KEY": "k",
            "LLM_BASE_URL": "http://one",
            "LIGHT_LLM_BASE_URL": "http://two",
        }
    )
    assert facts(config.model("light")) == ("openai-chat", "m", "http://two", "")


def test_light_without_a_provider_of_its_own_travels_as_main_does(place: Any) -> None:
    place.user(
        '[models.main]\nprovider="anthropic"\nmodel="big"\ntransport="sdk"\nclient="bedrock"\nheaders={x="y"}\n'
        '[models.light]\nmodel="small"\n'
    )
    light = place.load(environ={"ANTHROPIC_API_KEY": "a"}).model("light")
    assert (light.model, light.transport, dict(light.headers), light.options) == (
        "small",
        "sdk",
        {"x": "y"},
        {"client": "bedrock"},
    )
    own = place.user(place.user_file.read_text().replace('model="small"', 'model="small"\ntransport="direct"'))
    place.user(own.user_file.read_text().replace('\nclient="bedrock"', ""))
    assert place.load(environ={"ANTHROPIC_API_KEY": "a"}).model("light").transport == "direct"


def test_a_light_model_of_another_provider_takes_nothing_from_main(place: Any) -> None:
    place.user(
        '[models.main]\nprovider="anthropic"\nmodel="claude-opus-5"\ntransport="sdk"\nheaders={x="y"}\n'
        '[models.light]\nprovider="openai-chat"\nmodel="llama"\nbase_url="http://localhost:11434/v1"\n'
    )
    light = place.load(environ={"ANTHROPIC_API_KEY": "a"}).model("light")
    assert facts(light) == ("openai-chat", "llama", "http://localhost:11434/v1", "")
    assert light.headers == {}
    assert light.transport == "direct"


def test_a_stronger_layer_that_names_another_provider_drops_address_key_and_model_of_the_weaker(place: Any) -> None:
    place.user(
        '[models.main]\nprovider="anthropic"\nmodel="claude-opus-5"\nbase_url="http://proxy"\napi_key_env="PROXY_KEY"\n'
    )
    environ = {"PROXY_KEY": "p", "OPENAI_API_KEY": "o"}
    assert facts(place.load(environ=environ).model()) == ("anthropic", "claude-opus-5", "http://proxy", "p")
    other = place.load(environ=environ, flags={"models.main.provider": "openai"})
    assert facts(other.model()) == ("openai", "gpt-6-sol", "", "o")
    same = place.load(environ=environ, flags={"models.main.provider": "anthropic"})
    assert same.model().base_url == "http://proxy"


def test_a_file_that_names_an_address_beats_the_vendors_variable(place: Any) -> None:
    place.user('[models.main]\nprovider="openai-chat"\nmodel="llama"\nbase_url="http://localhost:11434/v1"\n')
    config = place.load(environ={"OPENAI_BASE_URL": "http://elsewhere", "OPENAI_API_KEY": "o"})
    assert config.model().base_url == "http://localhost:11434/v1"


def test_a_model_can_be_named_and_goes_to_its_own_vendor(place: Any) -> None:
    config = place.load(environ={"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"})
    assert facts(config.model("claude-opus-5")) == ("anthropic", "claude-opus-5", "", "a")
    assert facts(config.model("gpt-5.5")) == ("openai", "gpt-5.5", "", "o")
    assert facts(config.model("o4-mini")) == ("openai", "o4-mini", "", "o")
    own = place.load(environ={"LLM_BASE_URL": "http://h/v1", "LLM_MODEL_ID": "a", "OPENAI_API_KEY": "o"})
    assert facts(own.model("gpt-oss"))[:3] == ("openai-chat", "gpt-oss", "http://h/v1")


@pytest.mark.parametrize("transport", ["direct", "sdk"])
def test_no_key_is_exit_3_unless_the_vendors_client_brings_its_own(place: Any, transport: str) -> None:
    config = place.load(flags={"models.main.provider": "anthropic", "models.main.transport": transport})
    if transport == "sdk":
        assert config.model().api_key == ""
        return
    with pytest.raises(UserError) as caught:
        config.model()
    assert caught.value.message == "no key for anthropic: ANTHROPIC_API_KEY is not set"
    assert caught.value.exit_code == 3


def test_a_key_variable_that_is_named_but_missing_is_said(place: Any) -> None:
    place.user('[models.main]\nprovider="openai-chat"\nmodel="m"\nbase_url="http://h"\napi_key_env="MY_KEY"\n')
    with pytest.raises(UserError, match="MY_KEY is not set"):
        place.load().model()


def test_an_own_server_without_a_model_name_is_said(place: Any) -> None:
    with pytest.raises(UserError, match="no model is named for http://h/v1"):
        place.load(environ={"LLM_BASE_URL": "http://h/v1"}).model()


def test_no_password_of_an_address_is_said(place: Any) -> None:
    with pytest.raises(UserError, match=r"no model is named for http://h/v1$") as caught:
        place.load(environ={"LLM_BASE_URL": "http://me:sesame@h/v1?key=sesame"}).model()
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("host", ["h:99999", "h:1b434", "[::1"])
def test_an_address_that_cannot_be_read_is_said(place: Any, host: str) -> None:
    environ = {"LLM_BASE_URL": f"http://u:sesame@{host}", "LLM_MODEL_ID": "m"}
    with pytest.raises(UserError, match=r"models\.main\.base_url is not an address") as caught:
        place.load(environ=environ).model()
    assert "sesame" not in str(caught.value)


def test_variables_in_headers_and_address_are_filled_in_when_the_model_is_opened(place: Any) -> None:
    place.user(
        '[models.main]\nprovider="openai-chat"\nmodel="m"\nbase_url="https://${GATE}/v1"\n'
        '[models.main.headers]\nX-Team = "t-${TEAM}"\n'
    )
    config = place.load(environ={"GATE": "gate.example", "TEAM": "blue"})
    assert config.models.main.base_url == "https://${GATE}/v1"
    spec = config.model()
    assert (spec.base_url, dict(spec.headers)) == ("https://gate.example/v1", {"X-Team": "t-blue"})
    with pytest.raises(UserError, match="the environment has no TEAM"):
        place.load(environ={"GATE": "g"}).model()


def test_prices_thinking_and_sizes_reach_the_model(place: Any) -> None:
    place.user(
        '[models.main]\nprovider="anthropic"\nmodel="m.1"\nthinking=2048\ncontext_window=50000\nmax_output_tokens=99\n'
        '[pricing."m.1"]\ninput=1\noutput=2.5\n'
    )
    spec = place.load(environ={"ANTHROPIC_API_KEY": "a"}).model()
    assert (spec.thinking, spec.context_window, spec.max_output_tokens) == (2048, 50000, 99)
    assert spec.prices == {"input": 1.0, "output": 2.5}


def test_a_script_makes_the_model_scripted(place: Any) -> None:
    spec = place.load(flags={"models.main.script": "a.yaml", "models.main.provider": "scripted"}).model()
    assert (spec.provider, spec.options) == ("scripted", {"script": "a.yaml"})


def test_no_key_is_ever_shown(place: Any) -> None:
    place.user(f'[models.main]\nheaders = {{Authorization = "Bearer {KEY}"}}\n')
    for variable in ("LLM_API_KEY", "ANTHROPIC_API_KEY"):
        config = place.load(environ={variable: KEY})
        assert config.model().api_key == KEY
        texts = [repr(config), repr(config.models.main), repr(config.model()), str(vars(config.model))]
        texts += itertools.chain.from_iterable(setting_rows(config))
        assert KEY not in "".join(texts)


def test_origins_say_why_a_model_was_chosen(place: Any) -> None:
    config = place.load(environ={"ANTHROPIC_API_KEY": "a", "ANTHROPIC_BASE_URL": "http://x"})
    assert config.origin("models.main.provider") == "ANTHROPIC_API_KEY is set"
    assert config.origin("models.main.api_key_env") == "environment ANTHROPIC_API_KEY"
    assert config.origin("models.main.base_url") == "environment ANTHROPIC_BASE_URL"
    assert config.origin("models.main.model") == "default of anthropic"
    assert place.load().origin("models.main.provider") == "no key was found"


def test_a_dot_env_file_is_never_read(place: Any) -> None:
    (place.project / ".env").write_text(f"ANTHROPIC_API_KEY={KEY}\n")
    assert place.load().model().provider == "offline"
