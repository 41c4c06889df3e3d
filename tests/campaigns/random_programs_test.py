#!/usr/bin/env python3
"""Random legal programs must print the same with and without us, in every order of the simulated streams.

    random_programs_test.py --program P --simcuda DIR --lib DIR --seeds 0-4999 [--profile NAME ...] [--jobs 2]
    random_programs_test.py ... --minutes 30              as many as fit, from --seeds on
    random_programs_test.py ... --switch NAME             with a safety rule off: a difference must be found and shrink
    random_programs_test.py ... --replay FILE             one written program

A difference is shrunk and printed as a program; the file named in the report is what --replay takes.
"""

import argparse
import concurrent.futures
import os
import pathlib
import sys
import tempfile
import time
from dataclasses import dataclass

from random_runs import ORDERS, Place, Profile, compared, profiles, replay, run_seeds, text_of
from shrink import shrunk, size

CHUNK = 30  # programs in one process


@dataclass
class Difference:
    profile: Profile
    order: str
    seed: int
    first: int  # of the process
    told: list[str]


def check(place: Place, profile: Profile, seeds: range, orders=ORDERS) -> tuple[int, list[Difference]]:
    """Number of operations, and what differs. Stops the whole run if the programs differ among themselves."""
    reference = None
    operations = 0
    found: list[Difference] = []
    for order in orders:
        bare = run_seeds(place, profile, seeds, order, preload=False)
        bad = [seed for seed in seeds if seed not in bare or bare[seed].wrong()]
        if bad:
            text = "\n".join(bare[bad[0]].lines[-20:]) if bad[0] in bare else "(it did not run)"
            raise SystemExit(f"profile {profile.name}, order {order}: seed {bad[0]} does not run without us:\n{text}")
        if reference is not None:
            for seed in seeds:
                if bare[seed].lines != reference[seed].lines:
                    told = "\n".join(compared(reference[seed].lines, bare[seed].lines)[:10])
                    raise SystemExit(f"profile {profile.name}: without us seed {seed} prints other things in order {order} than "
                                     f"in order {orders[0]}, so it is not legal:\n{told}")
        reference = bare
        operations = sum(printed.operations for printed in bare.values())
        ours = run_seeds(place, profile, seeds, order, preload=True)
        for seed in seeds:
            if seed not in ours or ours[seed].lines != bare[seed].lines:
                told = compared(bare[seed].lines, ours[seed].lines) if seed in ours else ["it did not run with us"]
                found.append(Difference(profile, order, seed, seeds[0], told))
                if ours.keys() < bare.keys():
                    break  # it ended there
    return operations, found


def explain(place: Place, difference: Difference) -> str:
    """Prints the difference, and the shrunk program, whose text it returns."""
    print(f"profile {difference.profile.name}, seed {difference.seed}, order {difference.order}: the program's results differ")
    for line in difference.told[:6]:
        print(f"  {line}")
    say = lambda text: print(f"  {text}", flush=True)
    for first in (difference.seed, difference.first):
        text = text_of(place, difference.profile, range(first, difference.seed + 1))
        small = shrunk(place, difference.profile, difference.order, text, say)
        if small:
            break
        say("it does not differ alone" if first != difference.first else "it does not differ when written down and run again")
    if small:
        file = pathlib.Path(tempfile.gettempdir(), f"cuheap-{difference.profile.name}-{difference.seed}.program")
        file.write_text(small)
        print(f"{small}  (in {file})", flush=True)
    return small


def chunks(seeds: range, names: list[Profile], minutes: float | None):
    """(profile, seeds): the seeds are shared out among the profiles, or go on until the time is over."""
    end = None if minutes is None else time.monotonic() + minutes * 60
    first = seeds[0]
    while (first <= seeds[-1]) if end is None else (time.monotonic() < end):
        for profile in names:
            if end is None and first > seeds[-1] or end is not None and time.monotonic() >= end:
                return
            last = first + CHUNK - 1 if end is not None else min(first + CHUNK - 1, seeds[-1])
            yield profile, range(first, last + 1)
            first = last + 1


def compare(args, place: Place, names: list[Profile]) -> int:
    started = time.monotonic()
    seeds = operations = 0
    found: list[Difference] = []
    work = chunks(args.seeds, names, args.minutes)
    told = started
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as workers:
        running = {}
        while True:
            while len(running) < args.jobs and len(found) < args.stop_after and (item := next(work, None)) is not None:
                running[workers.submit(check, place, *item)] = item
            if not running:
                break
            for future in concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED).done:
                _, some = running.pop(future)
                more, differences = future.result()
                seeds += len(some)
                operations += more
                found += differences
            if time.monotonic() - told > 60:
                told = time.monotonic()
                print(f"... {seeds} seeds, {len(found)} differences", flush=True)
    for difference in found[:args.stop_after]:
        explain(place, difference)
    print(f"{seeds} seeds ({', '.join(profile.name for profile in names)}), {operations} operations, {len(ORDERS)} orders: "
          f"{len(found)} differences, {time.monotonic() - started:.0f} s", flush=True)
    return 1 if found else 0


def must_find(args, place: Place, names: list[Profile]) -> int:
    """With a rule switched off there must be a difference, and the shrunk program must pass with the rule."""
    name, _, value = args.switch.partition("=")
    broken = Place(place.program, place.simcuda, place.lib, {name: value or "1"}, place.timeout_s)
    for profile, seeds in chunks(args.seeds, names, None):
        _, differences = check(broken, profile, seeds, args.orders)
        for difference in differences:
            print(f"with {args.switch}, after {difference.seed - args.seeds[0] + 1} seeds:")
            small = explain(broken, difference)
            if not small:
                continue
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder, "program")
                file.write_text(small)
                left, right = replay(place, profile, file, difference.order)
            if compared(left, right):
                print(f"the shrunk program differs without {args.switch}, too")
                return 1
            if size(small) > args.at_most:
                print(f"{size(small)} operations are left: more than {args.at_most}")
                return 1
            return 0
    print(f"with {args.switch} no difference among the seeds {args.seeds[0]}-{args.seeds[-1]}")
    return 1


def run_file(args, place: Place, profile: Profile) -> int:
    failed = 0
    for order in ORDERS:
        told = compared(*replay(place, profile, pathlib.Path(args.replay), order))
        print(f"order {order}: {'the same' if not told else 'differs'}", *told, sep="\n  ")
        failed += bool(told)
    return 1 if failed else 0


def profile_of(file: str, known: dict[str, Profile]) -> Profile:
    """Devices and memory as the program's first line says."""
    words = dict(word.split("=") for word in pathlib.Path(file).read_text().split("\n", 1)[0].split() if "=" in word)
    return Profile("file", int(words["devices"]), int(words["memory"]), False)


def seed_range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--simcuda", required=True, help="folder of the simulated driver")
    parser.add_argument("--lib", required=True, help="folder of libcuheap_preload.so")
    parser.add_argument("--seeds", type=seed_range, default=range(0, 200), metavar="A-B")
    parser.add_argument("--profile", action="append", default=[], help="only programs of this profile; may be repeated")
    parser.add_argument("--minutes", type=float, help="go on for so long")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--stop-after", type=int, default=2, help="differences")
    parser.add_argument("--switch", metavar="NAME[=VALUE]", help="environment variable that switches a rule off")
    parser.add_argument("--orders", nargs="+", default=list(ORDERS), help="for --switch")
    parser.add_argument("--at-most", type=int, default=15, help="operations of the shrunk program")
    parser.add_argument("--replay", metavar="FILE")
    args = parser.parse_args()
    place = Place(args.program, args.simcuda, args.lib)
    known = profiles(place)
    names = [known[name] for name in args.profile] or list(known.values())
    if args.replay:
        return run_file(args, place, profile_of(args.replay, known))
    return must_find(args, place, names) if args.switch else compare(args, place, names)


if __name__ == "__main__":
    sys.exit(main())
