"""Source design 002: three required fields, four fields back, and a coordinator that reads the result."""

from __future__ import annotations

from typing import Any

import pytest

from cowork.engine.subagents.result import view_002
from tests.fakes.command import Command
from tests.fakes.stage import call, say, turn
from tests.wire import server as wire

ORDER = {"description": "check the credit", "prompt": "Does the customer have a credit?", "subagent_type": "general"}
CREDIT = "Customer has a $50 credit from return #RET-456"


@pytest.mark.parametrize("missing", ["description", "prompt", "subagent_type"])
def test_each_of_the_three_fields_is_required(command: Command, missing: str) -> None:
    order = {k: v for k, v in ORDER.items() if k != missing}
    ended = command.play([turn(call("Task", **order)), say("ok")])
    assert ended.record()["error"] == {"code": "INVALID_PARAM", "message": f"Invalid input: missing field `{missing}`"}
    assert ended.of("agent.started") == []


PRICED = {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75}
USAGE = {"input_tokens": 1200, "output_tokens": 450}


def script(**head: Any) -> dict[str, Any]:
    return {
        **head,
        "main": [turn(call("Task", **ORDER), usage=USAGE), {**say("They have $50."), "usage": USAGE}],
        "agents": {"general": [{**say(CREDIT), "usage": USAGE}]},
    }


def test_four_fields_come_back(command: Command) -> None:
    ended = command.play(script(price=PRICED))
    view = view_002(ended.record())
    assert view.pop("duration_ms") >= 0
    assert view == {
        "result": CREDIT,
        "usage": {"prompt_tokens": 1200, "completion_tokens": 450},
        "total_cost_usd": 0.01035,
    }
    (told,) = ended.result["tasks"]
    assert told["result"] == CREDIT
    assert (told["subagent_type"], told["subagent_id"]) == ("general", "general-1")


def test_an_unknown_price_is_null_and_never_zero(command: Command) -> None:
    ended = command.play(script())
    assert view_002(ended.record())["total_cost_usd"] is None
    assert ended.result["total_cost_usd"] is None


def test_cost_by_type_and_the_whole_add_up_exactly(command: Command) -> None:
    result = command.play(script(price=PRICED)).result
    general = result["cost_by_subagent_type"]["general"]
    assert (general["tasks"], general["total_cost_usd"]) == (1, 0.01035)
    assert result["total_cost_usd"] == round(3 * 0.01035, 9)
    assert result["usage"]["input_tokens"] == 3 * 1200
    assert "general" in command.cowork("cost", "--by", "agent").out


def test_the_childs_words_reach_the_parents_next_request_and_it_is_told_to_use_them(command: Command) -> None:
    turns = [wire.turn(wire.call("Task", **ORDER)), wire.say("They have $50.")]
    with wire.Server(turns, routes={"check the credit": [wire.say(CREDIT)]}) as server:
        ended = command.stream(env=server.env("anthropic"))
    assert ended.code == 0, ended.err
    assert CREDIT in str(server.bodies[-1]["messages"][-1])
    assert "never answer as if it had not come back" in str(server.bodies[0]["system"])
    assert server.violations == []
