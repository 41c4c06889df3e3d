"""Each rule of safety, on and off: with it a program sees what it sees natively, without it the rule's symptom shows.

usage: safety_test.py RULE PROGRAM_FOLDER PRELOAD_LIBRARY DRIVER_FOLDER    (RULE: a name of RULES, docs/safety.md)
"""

import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from twice import Runs  # noqa: E402

HUNG = "hung"


@dataclasses.dataclass
class Rule:
    program: str
    scene: str
    off: dict[str, str]
    # What shows when the rule is off: the end of a line that the program would not print natively; HUNG; or, in the driver's
    # log, a call after its end.
    symptom: str
    settings: dict[str, str] = dataclasses.field(default_factory=dict)
    tries: int = 1  # of programs with threads, one in several may be lucky


def without(rule: str) -> dict[str, str]:
    return {"CUHEAP_TEST_WITHOUT": rule}


AFTER_THE_END = "a call after the driver's end"
SMALL = {"SIMCUDA_MEMORY": "256MiB"}
RULES = {
    "quarantine": Rule("free_barrier", "reuse", {"CUHEAP_TEST_NO_QUARANTINE": "1"}, "UNEXPECTED: not both as if alone"),
    "stream-rule": Rule("stream_ordered", "other-stream-unordered", {"CUHEAP_TEST_NO_STREAM_RULE": "1"},
                        "UNEXPECTED: not both as if alone"),
    "free-barrier": Rule("free_barrier", "copy-then-free", {"CUHEAP_FREE_BARRIER": "never"},
                         "UNEXPECTED: not the copy complete after a free"),
    "wait": Rule("out_of_memory", "waiting-in-the-way", without("wait"), "pitched 2", SMALL),
    "deadline": Rule("safety", "pending-work", without("deadline"), HUNG, {"SIMCUDA_MEMORY": "64MiB", "SIMCUDA_FREE_SYNC": "0"}),
    "rescue": Rule("out_of_memory", "idle-in-the-way", without("rescue"), "pitched 2", SMALL),
    "context-check": Rule("error_codes", "no-context", without("context-check"), "allocate 0"),
    "pass-through": Rule("sticky_errors", "by-kernel", without("pass-through"), "allocate 0"),
    "capture": Rule("safety", "capture", without("capture"), "unsafe allocation 0"),
    "range": Rule("ranges", "fills", without("range"), "UNEXPECTED: not neighbours as they were"),
    "fork": Rule("safety", "forked-children", without("fork"), "hung 1", tries=5),
    "exit": Rule("safety", "exit", without("exit"), AFTER_THE_END),
}


class Safety(Runs):
    rule: Rule
    folder: pathlib.Path
    settings = {"SIMCUDA_ORDER": "late", "SIMCUDA_SEED": "7", "SIMCUDA_PROGRESS_MS": "0"}

    def setUp(self) -> None:
        type(self).program = str(self.folder / f"cuheap_semantic_{self.rule.program}")

    def symptom_of(self, printed: list[str], calls: list[str]) -> bool:
        if self.rule.symptom == AFTER_THE_END:
            ends = [number for number, call in enumerate(calls) if call.startswith("# exit")]
            return bool(ends) and any(not call.startswith("#") for call in calls[ends[0]:])
        return any(line.endswith(self.rule.symptom) for line in printed)

    def hangs(self, environment: dict[str, str]) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            more = {**os.environ, **environment, "LD_LIBRARY_PATH": f"{self.driver}:{self.preload.parent}",
                    "LD_PRELOAD": self.preload.name, "CUHEAP_DIR": folder}
            try:
                subprocess.run([self.program, self.rule.scene], env=more, capture_output=True, check=False, timeout=12)
            except subprocess.TimeoutExpired:
                return True
            return False

    def test_with_the_rule_nothing_shows(self) -> None:
        environment = {**self.settings, **self.rule.settings}
        native, theirs = self.run_scene([self.rule.scene], preload=False, **environment)
        ours, calls = self.run_scene([self.rule.scene], preload=True, **environment)
        self.assertEqual(native, ours)
        self.assertFalse(self.symptom_of(native, theirs), "the symptom shows without cuheap too")
        self.assertFalse(self.symptom_of(ours, calls))

    def test_without_it_the_symptom_shows(self) -> None:
        environment = {**self.settings, **self.rule.settings, **self.rule.off}
        if self.rule.symptom == HUNG:
            self.assertTrue(self.hangs(environment), "it did not hang")
            return
        for _ in range(self.rule.tries):
            printed, calls = self.run_scene([self.rule.scene], preload=True, **environment)
            if self.symptom_of(printed, calls):
                return
        self.fail(f"no sign of it: {printed}")


if __name__ == "__main__":
    Safety.rule, Safety.folder = RULES[sys.argv[1]], pathlib.Path(sys.argv[2])
    Safety.preload, Safety.driver = pathlib.Path(sys.argv[3]), sys.argv[4]
    unittest.main(argv=sys.argv[:1])
