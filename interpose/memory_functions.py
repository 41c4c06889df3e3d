"""Reads interpose/memory_functions.list, and joins it with the list of hooked functions."""

import pathlib
import re
from dataclasses import dataclass

INTERPOSE = pathlib.Path(__file__).resolve().parent


@dataclass
class MemoryFunction:
    """One row of the table: a function that has to do with memory, and its variants for per-thread default streams."""

    names: list[str]
    version: int
    memory_class: str
    what_happens: str


class ListError(Exception):
    """The list says something that can't be: file, line, remedy."""


def read_hooks() -> dict[str, tuple[int, str]]:
    """Hooked function -> (first CUDA version, effect)."""
    text = (INTERPOSE / "hooked_functions.inc").read_text()
    return {name: (int(version), effect)
            for name, version, effect in re.findall(r"^HOOK\((\w+), (\d+), (\w+)\)$", text, re.MULTILINE)}


def read_effects() -> dict[str, str]:
    return dict(re.findall(r'^EFFECT\((\w+), "(.*)"\)$', (INTERPOSE / "effects.inc").read_text(), re.MULTILINE))


def parse(text: str, hooks: dict[str, tuple[int, str]], effects: dict[str, str]) -> list[MemoryFunction]:
    reasons: dict[str, str] = {}
    rows: list[MemoryFunction] = []
    seen: set[str] = set()
    memory_class = ""
    for number, line in enumerate(text.splitlines(), 1):
        where = f"interpose/memory_functions.list:{number}: "
        if not line or line.startswith("#"):
            continue
        if heading := re.fullmatch(r"\[(.+)\]", line):
            memory_class = heading[1]
            continue
        if reason := re.fullmatch(r"\$(\w+) = (.+)", line):
            reasons[reason[1]] = reason[2]
            continue
        entry = re.fullmatch(r"(cu\w+)(?: (\d+): (.+))?", line)
        if not entry:
            raise ListError(f"{where}neither a function, a [class] nor a $REASON: {line}")
        name, version, why = entry.groups()
        if name in seen:
            raise ListError(f"{where}{name} is there twice")
        seen.add(name)
        if not memory_class:
            raise ListError(f"{where}{name} stands before the first [class]")
        if name in hooks:
            if why:
                raise ListError(f"{where}{name} is hooked now: leave only its name on the line")
            variants = [name + suffix for suffix in ("_ptds", "_ptsz") if name + suffix in hooks]
            rows.append(MemoryFunction([name, *variants], hooks[name][0], memory_class, effects[hooks[name][1]]))
            continue
        if not why:
            raise ListError(f"{where}{name} is not hooked: say since which version it exists and why nothing is needed")
        if why.startswith("$"):
            if why[1:] not in reasons:
                raise ListError(f"{where}no reason {why}")
            why = reasons[why[1:]]
        rows.append(MemoryFunction([name], int(version), memory_class, f"forwarded: {why}"))
    return rows


def read_memory_functions() -> list[MemoryFunction]:
    return parse((INTERPOSE / "memory_functions.list").read_text(), read_hooks(), read_effects())
