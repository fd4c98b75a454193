"""What the demo shows: a small repository with a fault, and what the scripted model says about it."""

from __future__ import annotations

from cowork.core.blocks import Json

FILES = {
    "README.md": "# shop\n\nOrders, payments and refunds of a small shop.\n\nRun the tests: `python -m unittest -q`\n",
    "shop/__init__.py": "",
    "shop/orders.py": '''"""Orders, with an account or as a guest."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Order:
    """What somebody bought. Guests have an e-mail address and no account."""

    number: int
    cents: int
    user_id: int | None = None
    email: str = ""


def guest_order(number: int, cents: int, email: str) -> Order:
    """An order without an account."""
    return Order(number, cents, email=email)
''',
    "shop/refunds.py": '''"""Refunds: money back for an order."""

from __future__ import annotations

from shop.orders import Order

USERS = {1: "ada@example.org", 2: "grace@example.org"}


def receiver(order: Order) -> str:
    """Who gets the money back."""
    return USERS[order.user_id]


def refund(order: Order) -> str:
    """Pay an order back; gives the line for the books."""
    return f"{order.cents / 100:.2f} to {receiver(order)} for order {order.number}"
''',
    "shop/webhooks.py": '''"""Calls from the payment service."""

from __future__ import annotations

import logging

from shop.orders import Order
from shop.refunds import refund

log = logging.getLogger(__name__)


def on_refund_requested(order: Order) -> int:
    """Gives the HTTP status; the service tries again on anything but 200."""
    try:
        refund(order)
    except Exception:
        log.warning("refund of %s failed", order.number)
    return 200
''',
    "tests/__init__.py": "",
    "tests/test_refunds.py": '''"""Refunds."""

import unittest

from shop.orders import Order, guest_order
from shop.refunds import refund


class Refunds(unittest.TestCase):
    def test_an_account_gets_its_money_back(self) -> None:
        self.assertEqual(refund(Order(7, 1250, user_id=1)), "12.50 to ada@example.org for order 7")

    def test_a_guest_gets_the_money_back(self) -> None:
        self.assertEqual(refund(guest_order(8, 900, "lin@example.org")), "9.00 to lin@example.org for order 8")


if __name__ == "__main__":
    unittest.main()
''',
}

QUESTION = "why do refunds fail for guest orders?"
ORDER = "fix it and run the tests"
_TESTS = "python3 -m unittest -q"
_ANSWER = """Refunds fail because `receiver` looks every order up by its account, and a guest has none:

| place | state |
|---|---|
| `shop/orders.py:19` | fine: guests carry an e-mail address |
| `shop/refunds.py:12` | **broken**: `USERS[None]` raises `KeyError` |
| `shop/webhooks.py:19` | hides it: the error becomes a log line and a 200 |

One of two tests fails for this reason (`tests/test_refunds.py:14`). Shall I fix it?"""


def script(pace: float = 1.0) -> Json:
    """The model's side of the tour; `pace` stretches its pauses."""
    return {
        "model": "demo-model",
        "price": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75},
        "delay_ms": round(25 * pace),
        "main": [_paced(turn, pace) for turn in _MAIN],
        "agents": {
            "explore": [
                {"match": match, "turns": [_paced(turn, pace) for turn in turns]} for match, turns in _EXPLORERS.items()
            ],
            "bash": [_paced(turn, pace) for turn in _TESTER],
        },
    }


def _paced(turn: Json, pace: float) -> Json:
    return turn | ({"delay_ms": round(turn["delay_ms"] * pace)} if "delay_ms" in turn else {})


def _task(kind: str, title: str, prompt: str) -> Json:
    return {"Task": {"description": title, "prompt": prompt, "subagent_type": kind}}


def _call(tool: str, delay: int = 0, /, **given: str) -> Json:
    return {"call": {tool: given}} | ({"delay_ms": delay} if delay else {})


_MAIN: list[Json] = [
    {
        "say": "I'll look at three places at once.",
        "calls": [
            _task("explore", "guest checkout", "How does an order of a guest come about?"),
            _task("explore", "refund service", "Where do refunds find out who gets the money?"),
            _task("bash", "run the tests", "Run the tests and say which fail."),
        ],
    },
    {"say": _ANSWER},
    {"say": "", **_call("Read", 200, file_path="shop/refunds.py")},
    {
        "say": "Guests get it at the address on the order.",
        **_call(
            "Edit",
            file_path="shop/refunds.py",
            old_string="    return USERS[order.user_id]\n",
            new_string="    if order.user_id is None:\n        return order.email\n    return USERS[order.user_id]\n",
        ),
    },
    {"say": "Now the tests.", **_call("Bash", command=_TESTS, description="Run the tests")},
    {
        "expect": {"contains": "OK"},
        "say": "Fixed in `shop/refunds.py:12`: a guest order is paid back to its e-mail address. Both tests pass.",
    },
]
_EXPLORERS: dict[str, list[Json]] = {
    "order of a guest": [
        _call("Grep", 1200, pattern="guest", output_mode="content"),
        _call("Read", 1800, file_path="shop/orders.py"),
        {"say": "`guest_order` (shop/orders.py:19) sets an e-mail address and no user_id.", "delay_ms": 120},
    ],
    "who gets the money": [
        _call("Grep", 1500, pattern="def |USERS", path="shop", output_mode="content"),
        _call("Read", 1600, file_path="shop/refunds.py"),
        _call("Read", 1500, file_path="shop/webhooks.py"),
        {"say": "`receiver` (shop/refunds.py:12) needs a user_id; the webhook hides the error.", "delay_ms": 120},
    ],
}
_TESTER = [
    _call("Bash", 900, command=_TESTS, description="Run the tests"),
    {"say": "2 tests, 1 fails: test_a_guest_gets_the_money_back with KeyError: None.", "delay_ms": 120},
]
