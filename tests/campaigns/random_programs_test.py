#!/usr/bin/env python3
"""Random legal programs must print the same with and without the pool, in every order of the simulated streams.

With the quarantine rule switched off (CUHEAP_TEST_NO_QUARANTINE, for this test only) wrong bytes must appear: that
shows that the programs would find a pool that reuses memory too early. --stream-ordered does the same with programs that
use cuMemAllocAsync in several streams and pools, and with the rule of streams (CUHEAP_TEST_NO_STREAM_RULE).
"""

import argparse
import os
import subprocess
import sys
import tempfile

ORDERS = ["late", "random", "eager"]


def environment(args, order, preload, extra):
    env = dict(os.environ)
    for name in list(env):
        if name.startswith(("CUHEAP_", "SIMCUDA_")):
            env.pop(name)
    env["LD_LIBRARY_PATH"] = os.pathsep.join([args.simcuda, args.lib])
    env["SIMCUDA_ORDER"] = order
    env["SIMCUDA_SEED"] = "7"
    env["SIMCUDA_PROGRESS_MS"] = "0"  # a loaded machine must not make late work early
    env.pop("LD_PRELOAD", None)
    if preload:
        # A sanitized build's runtime comes first.
        env["LD_PRELOAD"] = (os.environ.get("CUHEAP_TEST_PRELOAD_FIRST", "") + " libcuheap_preload.so").strip()
    env.update(extra)
    return env


def kind(args):
    return ["--stream-ordered"] if args.stream_ordered else []


def run(args, order, preload, first, last, extra=None):
    """The output of the seeds, as a list of (seed, text)."""
    command = [args.program, str(first), str(last), *kind(args)]
    with tempfile.TemporaryDirectory() as journal:
        env = environment(args, order, preload, {"CUHEAP_DIR": journal, **(extra or {})})
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=1200, check=False)
        if preload and not os.listdir(journal):
            raise SystemExit(f"the preload library wrote no journal: {done.stderr}")
    if "ld.so" in done.stderr:
        raise SystemExit(f"the preload library is not loaded: {done.stderr}")
    parts = done.stdout.split("seed ")[1:]
    result = {int(part.split("\n", 1)[0]): part.split("\n", 1)[1] for part in parts}
    if done.returncode != 0:
        seed = max(result, default=first)
        result[seed] = result.get(seed, "") + f"ended with status {done.returncode}\n{done.stderr[-2000:]}"
    return result, done.stderr


def differences(bare, ours, first, last):
    return [seed for seed in range(first, last + 1) if bare.get(seed) != ours.get(seed)]


def show(args, seed, order, bare, ours):
    print(f"seed {seed}, order {order}: the program's results differ", flush=True)
    program = subprocess.run([args.program, str(seed), str(seed), "--print", *kind(args)], text=True, capture_output=True, check=False,
                             env=environment(args, order, False, {})).stdout.split("seed ")[0]
    print(program)
    left, right = bare.get(seed, "(nothing)").split("\n"), ours.get(seed, "(nothing)").split("\n")
    for index in range(max(len(left), len(right))):
        a = left[index] if index < len(left) else "(end)"
        b = right[index] if index < len(right) else "(end)"
        if a != b:
            print(f"  line {index}: without us: {a}\n  line {index}: with us:    {b}")


def run_bare(args, order):
    bare, stderr = run(args, order, False, args.first, args.last)
    bad = [seed for seed, text in bare.items() if "FAILED" in text or "error" in text or "status" in text]
    if len(bare) != args.last - args.first + 1 or bad:
        text = bare[bad[0]][-2000:] if bad else stderr
        raise SystemExit(f"order {order}: the programs do not run without us (seeds {bad[:5]}):\n{text}")
    return bare


def compare(args):
    failed = 0
    for order in ORDERS:
        bare = run_bare(args, order)
        if order != ORDERS[0] and bare != reference:
            print(f"order {order}: without us the results differ from order {ORDERS[0]}: a program is not legal, seeds",
                  differences(reference, bare, args.first, args.last)[:10])
            return 1
        reference = bare
        ours, stderr = run(args, order, True, args.first, args.last)
        wrong = differences(bare, ours, args.first, args.last)
        print(f"order {order}: {len(bare)} programs, {len(wrong)} differ", flush=True)
        for seed in wrong[:2]:
            show(args, seed, order, bare, ours)
        if stderr.strip():
            print(f"stderr with us: {stderr[-2000:]}")
        failed += len(wrong)
    return 1 if failed else 0


def must_find(args):
    found = {}
    rule = "CUHEAP_TEST_NO_STREAM_RULE" if args.stream_ordered else "CUHEAP_TEST_NO_QUARANTINE"
    for order in ORDERS:
        bare = run_bare(args, order)
        broken, _ = run(args, order, True, args.first, args.last, {rule: "1"})
        found[order] = len(differences(bare, broken, args.first, args.last))
        print(f"order {order}: with {rule} {found[order]} of {len(bare)} programs give other results",
              flush=True)
    if args.stream_ordered:
        return 0 if sum(found.values()) else 1
    # Eager work is done before its memory can be reused, and random work nearly always: there is little to find.
    return 0 if found["late"] else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--simcuda", required=True, help="folder of the simulated driver")
    parser.add_argument("--lib", required=True, help="folder of libcuheap_preload.so")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=499)
    parser.add_argument("--must-find", action="store_true", help="switch the quarantine off: differences must appear")
    parser.add_argument("--stream-ordered", action="store_true", help="programs of cuMemAllocAsync")
    args = parser.parse_args()
    return must_find(args) if args.must_find else compare(args)


if __name__ == "__main__":
    sys.exit(main())
