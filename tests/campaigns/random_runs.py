"""Runs random programs without and with the preload library, and tells where they differ."""

import os
import pathlib
import re
import subprocess
import tempfile
from dataclasses import dataclass, field

ORDERS = ("late", "random", "eager")


@dataclass
class Place:
    """What the programs run on."""
    program: str
    simcuda: str  # folder of the simulated driver
    lib: str  # folder of libcuheap_preload.so
    extra: dict[str, str] = field(default_factory=dict)  # of the runs with us
    timeout_s: int = 900

    def environment(self, profile: "Profile", order: str, preload: bool, journal: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CUHEAP_", "SIMCUDA_", "LD_"))}
        environment = {
            **kept,
            "LD_LIBRARY_PATH": os.pathsep.join([self.simcuda, self.lib]),
            "SIMCUDA_ORDER": order,
            "SIMCUDA_SEED": "7",
            "SIMCUDA_PROGRESS_MS": "0",  # a loaded machine must not make late work early
            "SIMCUDA_DEVICES": str(profile.devices),
            **({"SIMCUDA_MEMORY": str(profile.memory)} if profile.memory else {}),
        }
        if profile.apart:  # after its error, work that never runs leaks what it was given
            environment["ASAN_OPTIONS"] = ":".join([*filter(None, [os.environ.get("ASAN_OPTIONS")]), "detect_leaks=0"])
        if preload:
            # A sanitized build's runtime comes first.
            first = os.environ.get("CUHEAP_TEST_PRELOAD_FIRST", "")
            environment |= {"LD_PRELOAD": f"{first} libcuheap_preload.so".strip(), "CUHEAP_DIR": journal, **self.extra}
        return environment

    def start(self, arguments: list[str], profile: "Profile", order: str, preload: bool) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as journal:
            environment = self.environment(profile, order, preload, journal)
            try:
                done = subprocess.run([self.program, *arguments], env=environment, capture_output=True, text=True,
                                      timeout=self.timeout_s, check=False)
            except subprocess.TimeoutExpired as hung:
                printed = (hung.stdout or b"").decode(errors="replace")
                return subprocess.CompletedProcess(arguments, -1, printed + "hung\n", "")
            if preload and not os.listdir(journal):
                raise SystemExit(f"the preload library wrote no journal: {done.stderr}")
        if "ld.so" in done.stderr:
            raise SystemExit(f"the preload library is not loaded: {done.stderr}")
        return done


@dataclass(frozen=True)
class Profile:
    name: str
    devices: int
    memory: int
    apart: bool  # a process for each program


def profiles(place: Place) -> dict[str, Profile]:
    listed = subprocess.run([place.program, "--profiles"], capture_output=True, text=True, check=True,
                            env={**os.environ, "LD_LIBRARY_PATH": place.simcuda})
    found = {}
    for line in listed.stdout.splitlines():
        name, devices, memory, apart = line.split()
        found[name] = Profile(name, int(devices), int(memory), apart == "1")
    return found


@dataclass
class Printed:
    """What one program printed."""
    operations: int
    lines: list[str]

    def wrong(self) -> bool:
        """A call that must succeed failed, or the program did not reach its end."""
        return self.lines[-1:] != ["done"] or any(re.match(r"\d+ .*error ", line) for line in self.lines)


def split(done: subprocess.CompletedProcess[str]) -> dict[int, Printed]:
    result: dict[int, Printed] = {}
    seed = -1
    for line in done.stdout.splitlines():
        if line.startswith("seed "):
            seed, operations = int(line.split()[1]), int(line.split()[2])
            result[seed] = Printed(operations, [])
        elif seed in result:
            result[seed].lines.append(line)
    if done.returncode != 0:
        text = f"ended with status {done.returncode}: {done.stderr[-2000:]}"
        result.setdefault(seed, Printed(0, [])).lines.append(text)
    return result


def run_seeds(place: Place, profile: Profile, seeds: range, order: str, preload: bool) -> dict[int, Printed]:
    arguments = [profile.name, str(seeds[0]), str(seeds[-1]), *(["--apart"] if profile.apart else [])]
    done = place.start(arguments, profile, order, preload)
    result = split(done)
    if done.stderr.strip() and done.returncode == 0:
        result[seeds[-1]].lines.append("on stderr: " + done.stderr[-2000:])
    return result


def text_of(place: Place, profile: Profile, seeds: range) -> str:
    done = place.start([profile.name, str(seeds[0]), str(seeds[-1]), "--print"], profile, "late", False)
    return done.stdout


def legal(place: Place, profile: Profile, text: str) -> str:
    """The programs without what is not legal, numbered anew."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "program")
        file.write_text(text)
        done = place.start(["--replay", str(file), "--print"], profile, "late", False)
    if done.returncode != 0:
        raise SystemExit(f"the program can't be read: {done.stderr}")
    return done.stdout


def replay(place: Place, profile: Profile, file: pathlib.Path, order: str) -> tuple[list[str], list[str]]:
    """What the programs in the file print without and with us."""
    both = []
    for preload in (False, True):
        done = place.start(["--replay", str(file)], profile, order, preload)
        lines = done.stdout.splitlines()
        if done.returncode != 0 or done.stderr.strip():
            lines.append(f"ended with status {done.returncode}: {done.stderr[-500:]}")
        both.append(lines)
    return both[0], both[1]


def compared(left: list[str], right: list[str]) -> list[str]:
    """The lines that differ, by the number of their operation."""
    def by_number(lines: list[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        seed = ""
        for line in lines:
            if line.startswith("seed "):
                seed = line.split()[1]
            number, _, rest = line.partition(" ")
            key = f"seed {seed} operation {number}" if number.isdigit() else f"seed {seed} {line if number != 'done' else 'end'}"
            found[key] = rest if number.isdigit() else line
        return found
    a, b = by_number(left), by_number(right)
    return [f"{key}: without us: {a.get(key, '(nothing)')}; with us: {b.get(key, '(nothing)')}"
            for key in [*a, *(key for key in b if key not in a)] if a.get(key) != b.get(key)]
