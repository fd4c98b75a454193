"""Orders, with an account or as a guest."""

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
