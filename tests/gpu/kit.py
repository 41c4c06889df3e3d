"""Runs the items of a packed GPU kit (manifest.json, made by pack.py) on a machine's GPU, one after the other, and writes what
became of each into one file.

Exit status: 0 all passed or were skipped with a reason, 1 something failed, 77 there is no GPU here. Nothing hangs: each item
has a time limit, all together have one, and what is left over then is named; --resume runs the rest in a second call.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
NOT_STARTED = 127
TAIL = 4000  # characters kept of what an item said
FIGURE = re.compile(r"^figure: ([^=]+?) = (\S+)(?: (.*))?$", re.MULTILINE)
ALL_SKIPPED = re.compile(r"^Ran (\d+) tests? in .*\n\nOK \(skipped=(\d+)\)\s*\Z", re.MULTILINE)  # unittest's last words
ORDER = ("claims", "roads", "semantics", "hazards", "samples")  # the dearest last, should time run out


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run.sh", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--driver", metavar="FOLDER", help="take this folder's libcuda.so.1, such as lib/simcuda, for a GPU")
    parser.add_argument("--as-gpu", metavar="FOLDER", help="the same, but the tests are not told: what is left to try is hardware")
    parser.add_argument("--results", metavar="FOLDER", default="gpu_results",
                        help="where results.json and results.txt go (default: gpu_results)")
    parser.add_argument("--time", metavar="SECONDS", type=float, default=570, help="for all items together (default: 570)")
    parser.add_argument("--item-time", metavar="SECONDS", type=float, default=90, help="for each at most (default: 90)")
    parser.add_argument("--only", metavar="REGEX", help="only items whose name matches")
    parser.add_argument("--resume", action="store_true", help="leave out what passed or was skipped in the results there")
    parser.add_argument("--list", action="store_true", help="name the items and end")
    return parser.parse_args()


class Kit:
    def __init__(self, options: argparse.Namespace) -> None:
        self.manifest = json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))
        folder = options.driver or options.as_gpu
        self.driver = str(pathlib.Path(folder).resolve()) if folder else None  # in place of the machine's
        self.word = "gpu" if options.as_gpu or not folder else self.driver  # what the tests are given for it
        self.folder = pathlib.Path(options.results)
        self.options = options
        self.end = time.monotonic() + options.time
        wanted = re.compile(options.only or "")
        known = {group: place for place, group in enumerate(ORDER)}
        self.items = sorted((item for item in self.manifest["items"] if wanted.search(item["name"])),
                            key=lambda item: known.get(item["group"], len(ORDER)))
        self.results: dict = {}
        # The machine's own libraries are preferred: its driver and its python3 were made for them.
        self.carried = False
        self.carried = self.run(["{root}/build/bin/cuheap", "--version"], 60)[0] != 0

    # ---- running ----

    def environment(self) -> dict[str, str]:
        foreign = ("CUHEAP_",) if self.driver else ("CUHEAP_", "SIMCUDA_")
        out = {name: value for name, value in os.environ.items() if not name.startswith(foreign) and name != "LD_PRELOAD"}
        folders = ([self.driver] if self.driver else []) + [str(HERE / "build/lib"), str(HERE / "build/cuda")]
        folders += [str(HERE / "build/deps")] if self.carried else []
        out["LD_LIBRARY_PATH"] = ":".join(folders + [out[name] for name in ("LD_LIBRARY_PATH",) if out.get(name)])
        return out

    def run(self, command: list[str], limit_s: float, folder: str = ".") -> tuple[int | None, str]:
        """Status and output; None: it ran past the limit, and everything that it started was killed."""
        words = [word.replace("{root}", str(HERE)).replace("{driver}", self.word) for word in command]
        words[0] = sys.executable if words[0] == "python3" else words[0]
        try:
            process = subprocess.Popen(words, env=self.environment(), cwd=HERE / folder, stdin=subprocess.DEVNULL, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
                                       start_new_session=True)
        except OSError as error:
            return NOT_STARTED, str(error)
        with process:
            return self.finish(process, limit_s)

    def finish(self, process: subprocess.Popen, limit_s: float) -> tuple[int | None, str]:
        try:
            said, _ = process.communicate(timeout=limit_s)
            return process.returncode, said
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        try:
            said, _ = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:  # held in the kernel, or a grandchild in a session of its own has the pipe
            said = "(it could not be killed)"
            process.returncode = -signal.SIGKILL  # nobody waits for it
        return None, said

    def missing(self, item: dict) -> str:
        """The first library of the item that this machine lacks."""
        for library in item.get("needs", ()):
            status, _ = self.run(["python3", "-c", f"import ctypes; ctypes.CDLL({library!r})"], 60)
            if status != 0:
                return library
        return ""

    def run_item(self, item: dict) -> dict:
        left = self.end - time.monotonic()
        out = {"name": item["name"], "group": item["group"], "status": "not run", "reason": "the time was up", "seconds": 0.0}
        if left < 3:
            return out
        if library := self.missing(item):
            return out | {"status": "skipped", "reason": f"there is no {library} on this machine"}
        limit = min(item["limit_s"], self.options.item_time, left)
        began = time.monotonic()
        status, said = self.run(item["command"], limit, item.get("folder", "."))
        out["seconds"] = round(time.monotonic() - began, 2)
        out["figures"] = {name: f"{value} {unit}".strip() for name, value, unit in FIGURE.findall(said)}
        if status is None:
            return out | {"status": "failed", "reason": f"it was not done after {limit:.0f} s", "output": said[-TAIL:]}
        counts = ALL_SKIPPED.search(said)
        if status == 0 and counts and counts[1] == counts[2]:
            return out | {"status": "skipped", "reason": "all of its tests say that they can't run here"}
        if status == 0:
            return out | {"status": "passed", "reason": ""}
        lines = said.strip().splitlines()
        if status == SKIPPED:
            return out | {"status": "skipped", "reason": lines[-1] if lines else "it says not why"}
        wrong = [line for line in lines if re.match(r"(\w*Error\b|fails: |FAIL)", line)]
        return out | {"status": "failed", "reason": (wrong or lines or [f"it ended with {status}"])[-1][:300],
                      "output": said[-TAIL:]}

    # ---- the machine ----

    def probe(self) -> dict:
        """What the driver says of the machine; ends the program where there is none."""
        status, said = self.run(["{root}/build/tests/gpu/cuheap_gpu_probe"], 60)
        if status != 0:
            print(f"gpu kit: no GPU here: {said.strip() or f'the probe ended with {status}'}")
            sys.exit(SKIPPED if status in (SKIPPED, NOT_STARTED) or status is None else 1)
        facts = json.loads(said)
        if facts["simulated"] and not self.driver:
            print("gpu kit: no GPU here: libcuda.so.1 is the simulated one (--driver FOLDER takes it for one)")
            sys.exit(SKIPPED)
        module = pathlib.Path("/proc/driver/nvidia/version")
        facts["kernel_module"] = module.read_text().splitlines()[0] if module.exists() and not facts["simulated"] else ""
        return facts | {"system": f"{platform.system()} {platform.release()}", "machine": platform.machine(),
                        "libc": " ".join(platform.libc_ver()), "carried_libraries": self.carried, "python": platform.python_version()}

    # ---- results ----

    def write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("results.json", json.dumps(self.results, indent=1) + "\n"), ("results.txt", self.text())):
            new = self.folder / (name + ".new")
            new.write_text(text, encoding="utf-8")
            new.replace(self.folder / name)

    def text(self) -> str:
        machine, items = self.results["machine"], self.results["items"]
        count = {status: sum(item["status"] == status for item in items) for status in ("passed", "failed", "skipped", "not run")}
        lines = [f"cuheap GPU kit, {self.results['made_from']}", f"begun {self.results['began']}",
                 "devices: " + "; ".join(f"{device['name']}, capability {device['capability']}, {device['memory_bytes']} bytes"
                                         for device in machine["devices"]),
                 f"driver: CUDA {machine['driver_version']}{' (simulated)' if machine['simulated'] else ''} "
                 f"{machine['kernel_module']}".rstrip(),
                 f"system: {machine['system']} {machine['machine']}, {machine['libc']}, Python {machine['python']}",
                 ", ".join(f"{number} {status}" for status, number in count.items()), ""]
        for item in items:
            reason = f": {item['reason']}" if item["reason"] else ""
            lines.append(f"{item['status']:8} {item['seconds']:7.2f} s  {item['name']}{reason}")
            lines += [f"{'':20} {name} = {value}" for name, value in item.get("figures", {}).items()]
        for item in items:
            if item["status"] == "failed":
                lines += ["", f"--- {item['name']}", item.get("output", "").rstrip()]
        return "\n".join(lines) + "\n"

    def earlier(self) -> dict[str, dict]:
        path = self.folder / "results.json"
        if not self.options.resume or not path.exists():
            return {}
        before = json.loads(path.read_text(encoding="utf-8"))
        if before["made_from"] != self.manifest["made_from"]:
            print(f"gpu kit: {path} is of another kit ({before['made_from']}): nothing is taken over")
            return {}
        return {item["name"]: item for item in before["items"] if item["status"] in ("passed", "skipped")}

    def main(self) -> int:
        machine = self.probe()
        done = self.earlier()
        print(f"gpu kit: made from {self.manifest['made_from']}, {len(self.items)} items", flush=True)
        began = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        self.results = {"format": 1, "made_from": self.manifest["made_from"], "began": began, "machine": machine, "items": []}
        for item in self.items:
            result = done.get(item["name"]) or self.run_item(item)
            self.results["items"].append(result)
            if item["name"] not in done:
                print(f"{result['status']:8} {result['seconds']:7.2f} s  {item['name']}"
                      f"{': ' + result['reason'] if result['reason'] else ''}", flush=True)
            self.write()  # what is known so far survives whatever comes
        statuses = [item["status"] for item in self.results["items"]]
        print(f"gpu kit: {statuses.count('passed')} passed, {statuses.count('failed')} failed, {statuses.count('skipped')} skipped, "
              f"{statuses.count('not run')} not run; {self.folder / 'results.txt'}")
        return 1 if "failed" in statuses or "not run" in statuses or not statuses else 0


if __name__ == "__main__":
    kit = Kit(arguments())
    if kit.options.list:
        print("\n".join(item["name"] for item in kit.items))
        sys.exit(0)
    sys.exit(kit.main())
