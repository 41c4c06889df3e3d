"""What a report says would help, checked by doing it: each remedy is applied to the training, which runs again on the
simulated CUDA, and the peak falls by what was promised, within a tenth.

usage: remedies_test.py CUHEAP [--all] [unittest's arguments]
       remedies_test.py CUHEAP --table [KIND ...]

--table prints promised and measured figures (of these kinds of remedies) as a Markdown table, as in
docs/remedies.md, and tests nothing.
"""

import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch_python

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE = 0.10  # of what was measured


@dataclasses.dataclass(frozen=True)
class Case:
    kind: str  # of the remedy, as the report names it
    model: str
    before: tuple[str, ...] = ()  # options of remedy_trainings.py
    after: tuple[str, ...] = ()
    quick: bool = False  # tested in every run of the suite; the others with --all


EVALUATION, LARGE_EVALUATION = ("--evaluate", "128"), ("--evaluate", "256")
CASES = (
    Case("smaller_batch", "transformer", (), ("--batch", "16")),
    Case("smaller_batch", "encoder", (), ("--batch", "16"), quick=True),
    Case("smaller_batch", "cnn", ("--optimizer", "momentum"), ("--optimizer", "momentum", "--batch", "16")),
    Case("smaller_batch", "mlp", ("--batch", "4096"), ("--batch", "2048")),
    Case("gradient_accumulation", "transformer", (), ("--accumulate", "2")),
    Case("gradient_accumulation", "encoder", (), ("--accumulate", "2"), quick=True),
    Case("gradient_accumulation", "mlp", ("--batch", "4096"), ("--batch", "4096", "--accumulate", "2")),
    Case("activation_checkpointing", "transformer", (), ("--checkpoint",)),
    Case("activation_checkpointing", "encoder", (), ("--checkpoint",), quick=True),
    Case("activation_checkpointing", "cnn", (), ("--checkpoint",)),
    Case("offload_saved", "transformer", (), ("--offload",)),
    Case("offload_saved", "encoder", (), ("--offload",), quick=True),
    Case("offload_saved", "cnn", (), ("--offload",)),
    Case("offload_saved", "mlp", ("--batch", "4096"), ("--batch", "4096", "--offload")),
    Case("mixed_precision", "transformer", (), ("--autocast",)),
    Case("mixed_precision", "encoder", (), ("--autocast",), quick=True),
    Case("mixed_precision", "cnn", (), ("--autocast",)),
    Case("mixed_precision", "mlp", ("--batch", "4096"), ("--batch", "4096", "--autocast")),
    Case("sgd", "transformer", (), ("--optimizer", "sgd")),
    Case("sgd", "mlp", (), ("--optimizer", "sgd"), quick=True),
    Case("sgd_momentum", "transformer", (), ("--optimizer", "momentum")),
    Case("sgd_momentum", "mlp", (), ("--optimizer", "momentum")),
    Case("fused_optimizer", "mlp", (), ("--optimizer", "adamw_fused"), quick=True),
    Case("fused_optimizer", "transformer", ("--batch", "2"), ("--batch", "2", "--optimizer", "adamw_fused")),
    Case("loop_optimizer", "mlp", (), ("--optimizer", "adamw_loop")),
    Case("drop_gradients", "transformer", ("--zero", "keep"), ()),
    Case("drop_gradients", "mlp", ("--zero", "keep", "--batch", "1024"), ("--batch", "1024"), quick=True),
    Case("drop_gradients", "mlp", ("--zero", "between", "--batch", "2048"), ("--batch", "2048")),
    Case("drop_gradients", "mlp", ("--zero", "between", "--optimizer", "sgd", "--batch", "2048"),
         ("--optimizer", "sgd", "--batch", "2048")),
    Case("no_grad", "transformer", EVALUATION, (*EVALUATION, "--no-grad")),
    Case("no_grad", "cnn", EVALUATION, (*EVALUATION, "--no-grad"), quick=True),
    Case("detach", "encoder", ("--evaluate", "64", "--keep-losses", "tensors"),
         ("--evaluate", "64", "--keep-losses", "numbers"), quick=True),
    Case("detach", "transformer", (*EVALUATION, "--keep-losses", "tensors"),
         (*EVALUATION, "--keep-losses", "numbers")),
    Case("free_earlier", "transformer", (*LARGE_EVALUATION, "--no-grad"), (*LARGE_EVALUATION, "--no-grad", "--delete")),
)


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items()
            if not name.startswith(("SIMCUDA_", "CUHEAP_", "PYTORCH_", "CUDA_VISIBLE", "LD_"))}


class Trainings:
    """Runs each training once, and keeps its report."""

    def __init__(self, cuheap: str, python: str):
        self.cuheap, self.python = cuheap, python

    @functools.cache
    def report(self, model: str, options: tuple[str, ...]) -> dict:
        with tempfile.TemporaryDirectory(prefix="cuheap remedies ") as folder:
            snapshot = pathlib.Path(folder) / "training.json"
            done = torch_python.run([self.cuheap, "run", "--simulate", "-q", "-o", str(snapshot), "--", self.python,
                                     str(HERE / "remedy_trainings.py"), model, *options], environment(), timeout=600)
            if done.returncode != 0:
                raise AssertionError(f"{model} {options} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
            told = subprocess.run([self.cuheap, "report", "--json", str(snapshot)], capture_output=True, text=True,
                                  check=True, timeout=300)
            return json.loads(told.stdout)

    def peak(self, model: str, options: tuple[str, ...]) -> int:
        tensors, = self.report(model, options)["tensors"]
        return tensors["peak"]["bytes"]


@dataclasses.dataclass
class Outcome:
    case: Case
    before: int
    after: int
    remedy: dict | None

    @property
    def measured(self) -> int:
        return self.before - self.after

    @property
    def deviation(self) -> float:
        return (self.remedy["saved_bytes"] - self.measured) / self.measured


def outcome_of(trainings: Trainings, case: Case) -> Outcome:
    device, = trainings.report(case.model, case.before)["remedies"]
    remedy = next((one for one in device["remedies"] if one["kind"] == case.kind), None)
    return Outcome(case, device["peak"]["bytes"], trainings.peak(case.model, case.after), remedy)


class Promises(unittest.TestCase):
    trainings: Trainings
    cases: list[Case]

    def test_promises_are_kept(self) -> None:
        for case in self.cases:
            with self.subTest(case):
                outcome = outcome_of(self.trainings, case)
                self.assertIsNotNone(outcome.remedy, "the remedy was not offered")
                self.assertEqual(outcome.before, self.trainings.peak(case.model, case.before))
                self.assertGreater(outcome.measured, 0)
                self.assertLessEqual(abs(outcome.deviation), TOLERANCE,
                                     f"promised {outcome.remedy['saved_bytes']:,}, measured {outcome.measured:,}")


def print_table(trainings: Trainings, kinds: list[str]) -> None:
    print("| remedy | training | options | peak | promised | measured | deviation |\n|---|---|---|---:|---:|---:|---:|")
    for case in (case for case in CASES if not kinds or case.kind in kinds):
        outcome = outcome_of(trainings, case)
        promised = outcome.remedy["saved_bytes"] if outcome.remedy else None
        told = f"{promised / 2**20:,.1f} | {outcome.measured / 2**20:,.1f} | " + (
            f"{outcome.deviation:+.1%}" if outcome.measured else "") if promised else (
                f"not offered | {outcome.measured / 2**20:,.1f} | ")
        print(f"| {case.kind} | {case.model} | {' '.join(case.before) or '-'} | {outcome.before / 2**20:,.1f} | {told} |",
              flush=True)


def main() -> None:
    trainings = Trainings(sys.argv[1], torch_python.find_or_skip())
    if "--table" in sys.argv:
        print_table(trainings, sys.argv[3:])
        return
    Promises.trainings = trainings
    Promises.cases = [case for case in CASES if case.quick or "--all" in sys.argv]
    unittest.main(argv=[sys.argv[0], *(argument for argument in sys.argv[2:] if argument != "--all")])


if __name__ == "__main__":
    main()
