"""Makes a failing random program small: operations, threads, streams and sizes go while the difference stays."""

import pathlib
import re
import tempfile
from collections.abc import Callable

from random_runs import Place, Profile, compared, legal, replay

OPERATION = re.compile(r"^\s*\d+\s+t(\d+)\s")


class Shrinker:
    """differs(text) is asked of every shorter program; it only sees legal ones."""

    def __init__(self, place: Place, profile: Profile, order: str, tries: int = 1) -> None:
        self.place = place
        self.profile = profile
        self.order = order
        self.tries = tries
        self.asked = 0

    def differs(self, text: str) -> bool:
        self.asked += 1
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "program")
            file.write_text(text)
            for _ in range(self.tries):
                left, right = replay(self.place, self.profile, file, self.order)
                if compared(left, right):
                    return True
        return False

    def shrink(self, text: str) -> str:
        text = legal(self.place, self.profile, text)
        if not self.differs(text):
            raise ValueError("the program does not differ")
        for _ in range(4):
            before = text
            text = self.without_programs(text)
            text = self.without_lines(text)
            text = self.in_one_thread(text)
            text = self.renamed(text, "s", 0)
            text = self.with_sizes(text)
            if text == before:
                break
        return text

    def accepted(self, text: str, candidate: str) -> str | None:
        """The candidate's legal part if it is shorter or other than text, and still differs."""
        candidate = legal(self.place, self.profile, candidate)
        return candidate if candidate != text and size(candidate) <= size(text) and self.differs(candidate) else None

    def without_programs(self, text: str) -> str:
        programs = re.split(r"(?m)^(?=program )", text)[1:]
        index = 0
        while len(programs) > 1 and index < len(programs):
            rest = programs[:index] + programs[index + 1:]
            if self.differs("".join(rest)):
                programs = rest
            else:
                index += 1
        return "".join(programs)

    def without_lines(self, text: str) -> str:
        """Delta debugging: chunks of half of the lines, then of a quarter, down to single ones."""
        chunk = max(1, len(text.splitlines()) // 2)
        while True:
            lines = text.splitlines(keepends=True)
            end = len(lines)
            dropped = False
            while end > 0:  # from the end: uses go before what they use
                begin = max(0, end - chunk)
                kept = [line for line in lines[begin:end] if not OPERATION.match(line)]
                found = self.accepted(text, "".join(lines[:begin] + kept + lines[end:])) if len(kept) < end - begin else None
                if found is not None:
                    text, dropped = found, True
                    lines = text.splitlines(keepends=True)
                end = min(begin, len(lines))
            if chunk == 1 and not dropped:
                return text
            chunk = max(1, chunk // 2)

    def in_one_thread(self, text: str) -> str:
        single = re.sub(r"(?m)^(\s*\d+\s+)t\d+", r"\1t0", re.sub(r"threads=\d+", "threads=1", text))
        found = self.accepted(text, single)
        return found if found is not None else text

    def renamed(self, text: str, kind: str, start: int) -> str:
        """Fewer streams: what is in one goes to another."""
        names = sorted(set(re.findall(rf"\b{kind}\d+\b", text)), key=lambda name: int(name[1:]))
        for name in reversed(names[start:]):
            for other in [*names, "NULL"]:
                if other == name or name not in text:
                    continue
                found = self.accepted(text, re.sub(rf"\b{name}\b", other, text))
                if found is not None:
                    text = found
                    break
        return text

    def with_sizes(self, text: str) -> str:
        """Round sizes instead of random ones; small ones first."""
        for number in sorted(set(re.findall(r"\b\d{4,}\b", text)), key=int):
            for smaller in ("1024", "65536", "2097152", "4194304"):
                if int(smaller) >= int(number):
                    break
                found = self.accepted(text, re.sub(rf"(?<![\w]){number}\b", smaller, text))
                if found is not None:
                    text = found
                    break
        return text


def size(text: str) -> int:
    """Number of operations."""
    return sum(1 for line in text.splitlines() if OPERATION.match(line))


def shrunk(place: Place, profile: Profile, order: str, text: str, say: Callable[[str], None]) -> str:
    """The small program, with the difference as comments; empty if the program alone does not differ."""
    for tries in (1, 8):  # threads: not every run shows it
        shrinker = Shrinker(place, profile, order, tries)
        if not shrinker.differs(legal(place, profile, text)):
            continue
        small = shrinker.shrink(text)
        say(f"shrunk from {size(text)} to {size(small)} operations in {shrinker.asked} runs")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "program")
            file.write_text(small)
            for _ in range(tries):
                told = compared(*replay(place, profile, file, order))
                if told:
                    break
        comments = [f"// order {order}, devices {profile.devices}, memory {profile.memory or 'any'}", *(f"// {line}" for line in told)]
        return "\n".join([small.rstrip("\n"), *comments]) + "\n"
    return ""
