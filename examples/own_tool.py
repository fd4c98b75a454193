"""Give the agent a tool of your own, and refuse what you do not want it to do."""

import asyncio
import sqlite3
from typing import Annotated

import cowork

DATABASE = sqlite3.connect(":memory:", check_same_thread=False)
DATABASE.executescript("create table orders (id int, total real); insert into orders values (1, 9.5), (2, 20.0);")


@cowork.tool(reads=True)
def query(sql: Annotated[str, "One SELECT statement for SQLite"]) -> list[tuple[object, ...]]:
    """Ask the shop's database. The table orders has the columns id and total."""
    return DATABASE.execute(sql).fetchall()


def only_select(call: cowork.HookCall) -> cowork.HookVerdict | None:
    sql = str(call.data["tool_input"].get("sql", ""))
    return None if sql.lower().startswith("select") else cowork.HookVerdict("deny", "only SELECT is allowed")


async def main() -> None:
    hooks = {"PreToolUse:query": only_select}
    async with cowork.Session(tools=["Read", query], hooks=hooks) as session:
        print(await session.ask("What do our orders come to in all? Use the database."))


if __name__ == "__main__":
    asyncio.run(main())
