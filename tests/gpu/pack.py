"""Makes the folder of the GPU kit from a build: everything that its items need but a driver, libc and python3.

usage: pack.py BUILD_FOLDER KIT_FOLDER

The items are the tests that ctest knows by the labels below, without those labelled `simulated`: they take the driver's
folder as an argument, and the word "gpu" in its place. Whatever a test of that kind names is packed with it.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LABELS = ("claims", "roads", "semantics", "hazards", "samples")
MOST_BYTES = 64 << 20
# Read by the tests beside themselves.
TEXTS = ("tests/interpose", "tests/pytorch/call_log.py", "interpose/hooked_functions.inc", "interpose/options/options.inc",
         "docs/snapshot.schema.json")
# Of the vendor's runtime, where this machine has it: what runs on the vendor's driver should.
VENDOR = ("/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib")
# Parts of libc: they must be the machine's own.
LIBC = re.compile(r"(ld-linux.*|lib(c|m|dl|pthread|rt|resolv|util|anl|nsl|BrokenLocale))\.so\.\d+")
CUDA = re.compile(r"lib(cuda|cudart|cublas|cublasLt|nvidia-ml)\.so\.\d+")


class Pack:
    def __init__(self, build: pathlib.Path, kit: pathlib.Path) -> None:
        self.build, self.kit = build.resolve(), kit
        self.programs: set[pathlib.Path] = set()  # packed files that are not Python's

    # ---- items ----

    def tests(self) -> list[dict]:
        said = subprocess.run(["ctest", "--test-dir", str(self.build), "--show-only=json-v1"], capture_output=True, text=True,
                              check=True).stdout
        return json.loads(said)["tests"]

    def item(self, test: dict) -> dict | None:
        properties = {one["name"]: one["value"] for one in test.get("properties", ())}
        labels = properties.get("LABELS", [])
        group = next((label for label in LABELS if label in labels), None)
        if group is None or "simulated" in labels or "command" not in test:
            return None
        command = [word for word in test["command"] if word != "-B"]
        words = [self.word(word, group) for word in command]
        if pathlib.Path(command[0]).name.startswith("python"):
            words[0] = "python3"
            words.insert(1, "-B")
        return {"name": test["name"], "group": group, "command": words, "limit_s": float(properties.get("TIMEOUT", 120)),
                "needs": self.needed(command)}

    def word(self, word: str, group: str = "") -> str:
        """An argument as the kit has it; packs what it names. Of the folder of all tests' programs only those of the group."""
        path = pathlib.Path(word)
        if not path.is_absolute():
            return word
        if path == self.build / "lib/simcuda":
            return "{driver}"
        if path.is_relative_to(self.build):
            inside = path.relative_to(self.build)
            if not path.exists():
                raise SystemExit(f"pack: {path} is not built: build everything first")
            own = sorted(path.glob(f"*{group.rstrip('s')}*")) if path == self.build / "tests" else [path]
            for one in own:
                self.copy(one, self.kit / "build" / one.relative_to(self.build))
            return "{root}/build/" + str(inside)
        if path.is_relative_to(ROOT):
            inside = path.relative_to(ROOT)
            self.copy(path, self.kit / inside)
            return "{root}/" + str(inside)
        return word

    def needed(self, command: list[str]) -> list[str]:
        """Libraries of CUDA's, beside the driver, that the test's program needs: a machine may lack them."""
        found: set[str] = set()
        for word in command:
            path = pathlib.Path(word)
            if path.is_absolute() and path.is_relative_to(self.build) and path.is_file() and not path.suffix:
                found |= {name for name in libraries_of(path) if CUDA.fullmatch(name) and not name.startswith("libcuda.")}
        text = " ".join(command)
        return sorted(found | {f"libcudart.so.{major}" for major in re.findall(r"\bcudart_(1[23])\b", text)})

    # ---- files ----

    def copy(self, source: pathlib.Path, target: pathlib.Path) -> None:
        if source.is_dir():
            for one in sorted(source.iterdir()):
                if one.name not in ("CMakeFiles", "__pycache__", "Testing") and one.suffix not in (".cmake", ".o"):
                    self.copy(one, target / one.name)
            return
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
        with source.open("rb") as file:
            if file.read(4) == b"\x7fELF":
                self.programs.add(target)

    def add_libraries(self) -> None:
        """What the programs need beside libc and CUDA, for machines that lack it; and the vendor's runtime."""
        waiting = set(self.programs)
        while waiting:
            program = waiting.pop()
            for name, path in resolved(program).items():
                target = self.kit / "build/deps" / name
                if LIBC.fullmatch(name) or CUDA.fullmatch(name) or target.exists() or path.is_relative_to(self.build):
                    continue
                self.copy(path, target)
                waiting.add(target)
        for folder in VENDOR:
            for path in sorted(pathlib.Path(folder).glob("libcudart.so.1[23]")):
                self.copy(path.resolve(), self.kit / "build/cuda" / path.name)

    def strip(self) -> None:
        for program in self.programs:
            if "roads" not in program.parts:  # what is recorded of those is compared with their lines
                subprocess.run(["strip", "--strip-debug", str(program)], check=False, capture_output=True)

    def main(self) -> None:
        if self.kit.exists():
            shutil.rmtree(self.kit)
        self.kit.mkdir(parents=True)
        for name in TEXTS:
            self.copy(ROOT / name, self.kit / name)
        items = [item for item in map(self.item, self.tests()) if item is not None]
        for name in ("bin/cuheap", "lib/libcuheap_preload.so", "tests/gpu/cuheap_gpu_probe"):
            self.word(str(self.build / name))
        for name in ("run.sh", "kit.py"):
            self.copy(ROOT / "tests/gpu" / name, self.kit / name)
        self.add_libraries()
        self.strip()
        version = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True,
                                 check=False).stdout.strip()
        manifest = {"format": 1, "made_from": version or "unknown", "items": items}
        (self.kit / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        size = sum(path.stat().st_size for path in self.kit.rglob("*") if path.is_file())
        print(f"{self.kit}: {len(items)} items, {size / (1 << 20):.1f} MiB")
        if size > MOST_BYTES:
            raise SystemExit(f"pack: more than {MOST_BYTES >> 20} MiB, which is what may be carried")


def libraries_of(program: pathlib.Path) -> list[str]:
    said = subprocess.run(["readelf", "-d", str(program)], capture_output=True, text=True, check=False).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", said)


def resolved(program: pathlib.Path) -> dict[str, pathlib.Path]:
    said = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    return {name: pathlib.Path(path) for name, path in re.findall(r"^\s*(\S+) => (/\S.*) \(0x", said, re.MULTILINE)}


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    Pack(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])).main()
