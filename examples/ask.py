"""Ask one question and get a typed answer: python examples/ask.py "where is the parser?" """

import sys
from dataclasses import dataclass

import cowork


@dataclass
class Place:
    file: str
    line: int
    why: str


def main() -> None:
    question = " ".join(sys.argv[1:]) or "Where does this program start?"
    try:
        result = cowork.run(question, schema=Place, mode="plan", max_turns=20)
    except cowork.RunFailed as failure:
        sys.exit(f"{failure} (so far: {failure.result.text})")
    place = result.value
    print(f"{place.file}:{place.line} {place.why}")
    print(f"{result.turns} turns, ${result.cost_usd or 0:.4f}", file=sys.stderr)


if __name__ == "__main__":
    main()
