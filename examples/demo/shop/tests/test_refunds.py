"""Refunds."""

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
