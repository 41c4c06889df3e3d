"""Runs one of the seven training scripts on the simulated CUDA, bare or under `cuheap run --simulate`."""

import dataclasses
import hashlib
import json
import os
import pathlib
import subprocess

import call_log

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = ("mlp", "gpt2", "resnet50", "vit", "encoder_decoder", "lora", "compiled")
NEEDS = {"gpt2": "transformers", "encoder_decoder": "transformers", "resnet50": "torchvision", "vit": "torchvision"}
TIMEOUT_S = 300


@dataclasses.dataclass
class Run:
    """What one run left behind."""

    stdout: str
    calls: list[str]  # call_log.comparable()
    log: str
    books: dict  # with_books.py
    snapshot: dict | None = None  # cuheap's, and where it lies
    snapshot_path: pathlib.Path | None = None


def environment(simcuda: pathlib.Path | None, caches: pathlib.Path, log: pathlib.Path, **more: str) -> dict[str, str]:
    """Of a run: no settings from outside that would change it, no network, compilers' caches in a folder of their own,
    and nothing that depends on the clock.

    simcuda: for a bare run, the folder of the simulated libraries.
    """
    out = {name: value for name, value in os.environ.items()
           if not name.startswith(("SIMCUDA_", "CUHEAP_", "PYTORCH_", "TORCH", "TRITON_", "CUDA_", "LD_", "HF_"))}
    out |= {"HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0", "SIMCUDA_LOG_DATA": "1",
            "SIMCUDA_PROGRESS_MS": "0", "TRITON_DEFAULT_FP_FUSION": "1",
            "TRITON_CACHE_DIR": str(caches / "triton"), "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1", "TRANSFORMERS_VERBOSITY": "error"}
    if simcuda is not None:
        names = (simcuda / "preload.list").read_text(encoding="utf-8").splitlines()
        out |= {"LD_LIBRARY_PATH": str(simcuda), "SIMCUDA_LOG": str(log),
                "LD_PRELOAD": " ".join(name for name in names if name and not name.startswith("#"))}
    return out | more


@dataclasses.dataclass
class Runner:
    python: str
    cuheap: str
    simcuda: pathlib.Path
    caches: pathlib.Path  # of compilers; kept from run to run
    folder: pathlib.Path  # for what the runs write

    def warm_up(self, script: str) -> None:
        """The first run of a compiled model allocates for the compiler's own trials; what it found is kept."""
        question = "import importlib.metadata as m, sys; print(sys.version, m.version('torch'), m.version('triton'))"
        versions = subprocess.run([self.python, "-c", question], capture_output=True, check=True, timeout=300).stdout
        text = (HERE / "scripts" / f"{script}.py").read_bytes()
        marker = self.caches / f"warm {script} {hashlib.sha256(versions + text).hexdigest()[:16]}"
        if not marker.exists():
            self.bare(script)
            self.caches.mkdir(parents=True, exist_ok=True)
            marker.touch()

    def bare(self, script: str, **more: str) -> Run:
        """On the simulated CUDA, without cuheap."""
        return self._run(script, f"bare{len(more)}", [], self.simcuda, more)

    def under_cuheap(self, script: str, *options: str) -> Run:
        name = "cuheap" + "".join(options)
        snapshot = self._path(script, name, "snapshot.json")
        command = [self.cuheap, "run", "--simulate", *options, "--simulate-log", str(self._path(script, name, "log")),
                   "-o", str(snapshot), "--"]
        run = self._run(script, name, command, None, {})
        run.snapshot = json.loads(snapshot.read_text(encoding="utf-8"))
        run.snapshot_path = snapshot
        return run

    def report(self, run: Run) -> dict:
        done = subprocess.run([self.cuheap, "report", "--json", str(run.snapshot_path)], capture_output=True, text=True,
                              check=False, timeout=TIMEOUT_S)
        if done.returncode != 0:
            raise AssertionError(f"cuheap report ended with {done.returncode}:\n{done.stderr}")
        return json.loads(done.stdout)

    def _path(self, script: str, name: str, what: str) -> pathlib.Path:
        return self.folder / f"{script} {name} {what}"

    def _run(self, script: str, name: str, command: list[str], simcuda: pathlib.Path | None, more: dict) -> Run:
        log, books = self._path(script, name, "log"), self._path(script, name, "books.json")
        log.unlink(missing_ok=True)  # the driver appends
        done = subprocess.run(
            [*command, self.python, str(HERE / "with_books.py"), str(books), str(HERE / "scripts" / f"{script}.py")],
            env=environment(simcuda, self.caches, log, **more), capture_output=True, text=True, check=False,
            timeout=TIMEOUT_S)
        if done.returncode != 0:
            raise AssertionError(f"{script} ({name}) ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        if "simcuda:" in done.stderr:
            raise AssertionError(f"{script} ({name}) needs what is not simulated:\n{done.stderr}")
        text = log.read_text(encoding="utf-8")
        return Run(done.stdout, call_log.comparable(text), text, json.loads(books.read_text(encoding="utf-8")))
