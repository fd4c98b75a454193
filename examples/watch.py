"""Follow an answer as it is made, and decide about each action: python examples/watch.py "tidy up the imports" """

import asyncio
import sys

import cowork


async def ask(question: cowork.Question) -> cowork.Answer:
    if question.kind == "permission" and question.family in ("write", "exec"):
        said = await asyncio.to_thread(input, f"\n{question.title} {question.line} [y/N] ")
        return cowork.Answer("once") if said.lower() == "y" else cowork.Answer("no", "the user said no")
    return cowork.Answer("no")


async def main() -> None:
    prompt = " ".join(sys.argv[1:]) or "What is in this folder?"
    async with cowork.Session(ask=ask) as session:
        async for event in session.ask(prompt):
            if event.agent != "main":
                continue
            if event.type == "text.delta":
                print(event.text, end="", flush=True)
            elif event.type == "tool.started":
                print(f"\n> {event.name} {event.line}")
        print(f"\n{session.usage.total} tokens, ${session.cost or 0:.4f}; resume={session.id}")


if __name__ == "__main__":
    asyncio.run(main())
