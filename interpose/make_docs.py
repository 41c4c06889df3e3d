"""Writes docs/coverage.md and docs/options.md from the lists that the code is made from.

usage: make_docs.py [--check]    (--check writes nothing and exits 1 if a page is out of date)
"""

import pathlib
import re
import sys

import memory_functions

ROOT = pathlib.Path(__file__).resolve().parent.parent
INTERPOSE = ROOT / "interpose"


ROADS = [
    ("a program, or a library, that is linked with `libcuda.so.1`", "road_linked, road_linked_library"),
    ("`dlsym` on a handle; also of a driver opened by its absolute path", "road_dlsym, road_absolute_path"),
    ("`dlvsym`; `dlsym` that was itself looked up, by version or in the C library", "road_dlvsym, road_looked_up_lookup"),
    ("`dlsym` with `RTLD_NEXT`, `RTLD_DEFAULT`", "road_rtld_next, road_rtld_default"),
    ("`cuGetProcAddress` in both forms with every flag and several versions; also as the very first call",
     "road_get_proc_address, road_get_proc_address_v2, road_get_proc_address_first"),
    ("the shared runtime of CUDA 12 and 13", "road_cudart_12, road_cudart_13"),
    ("look-ups inside the executable, or inside a library, as the static runtime's",
     "road_static_runtime, road_library_with_static_runtime"),
    ("`cudaGetDriverEntryPoint`, `cudaGetDriverEntryPointByVersion`", "road_entry_point, road_entry_point_by_version"),
    ("Python's `ctypes`; a wheel that finds its runtime by `DT_RPATH`", "road_ctypes, road_wheel"),
    ("a child that a program under us starts, with its environment or a changed one that keeps `LD_PRELOAD`, "
     "`LD_LIBRARY_PATH` and `CUHEAP_DIR`", "road_child, road_child_environment"),
]
ROADS_AROUND = [
    ("a library opened with `RTLD_DEEPBIND` that is linked with the driver", "`unseen_library`, 1",
     "`road_deepbind`, `road_deepbind_lazy`, `road_deepbind_closed`"),
    ("a library opened with `RTLD_DEEPBIND` that looks functions up itself (a static runtime)", "`unseen_library`, 2",
     "`road_deepbind_static_runtime`, `road_mixed`"),
    ("a namespace of its own (`dlmopen`)", "`unseen_driver`; `unseen_library`, 3",
     "`road_dlmopen`, `road_dlmopen_static_runtime`"),
    ("a second driver by another path", "`unseen_driver`, `unknown_address`", "`road_other_path`"),
    ("a process none of whose calls came to the library", "`unseen_process`", "the same"),
    ("a look-up that gave an address which is not the driver's export", "`unknown_address`", "`roads_test`"),
    ("a child whose environment lost `LD_PRELOAD`; a set-user-id program", "none, but `cuheap run` says so at the end, if "
     "the process lived long enough (2 s are always enough)", "`road_child_without_us`"),
    ("a static executable", "none: it has no loader, and can't load a driver by it", "none"),
    ("private tables of the vendor's libraries", "none: what they allocate is not known to be one of the driver's calls",
     "none"),
]


def read_hooks() -> list[tuple[str, list[tuple[str, int, str]]]]:
    """Groups by the comment above them: (title, [(name, version, effect)])."""
    groups: list[tuple[str, list[tuple[str, int, str]]]] = []
    title = ""
    for line in (INTERPOSE / "hooked_functions.inc").read_text().splitlines():
        hook = re.fullmatch(r"HOOK\((\w+), (\d+), (\w+)\)", line)
        if hook:
            if title:
                groups.append((title, []))
                title = ""
            groups[-1][1].append((hook[1], int(hook[2]), hook[3]))
        elif line.startswith("// "):
            title = line[3:].rstrip(".")
    return groups


def read_framework_functions() -> list[str]:
    text = (INTERPOSE / "frameworks/framework_functions.inc").read_text()
    return re.findall(r"^FRAMEWORK_HOOK\((\w+)\)$", text, re.MULTILINE)


def version_text(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def coverage_page() -> str:
    groups, effects = read_hooks(), memory_functions.read_effects()
    memory = memory_functions.read_memory_functions()
    in_memory_table = {name for function in memory for name in function.names}
    count = sum(len(hooks) for _, hooks in groups)
    lines = [
        "# What the preload library stands in front of",
        "",
        "Made by `interpose/make_docs.py` from `interpose/hooked_functions.inc`, `interpose/effects.inc`,",
        "`interpose/memory_functions.list` and `interpose/frameworks/framework_functions.inc`; do not edit.",
        "",
        f"{count} entry points of the CUDA driver are hooked, by their exact exported names. Every call of the CUDA runtime",
        "ends in one of the driver's, so the runtime itself is not hooked.",
        "",
        "## Roads",
        "",
        "Each has a test of its name (`ctest -L roads`): what a small program allocates by it is served, and recorded with the",
        "line that asked.",
        "",
        "| road | test |",
        "|---|---|",
        *("| " + road + " | " + ", ".join(f"`{name}`" for name in tests.split(", ")) + " |" for road, tests in ROADS),
        "",
        "In all of them the driver's own result is returned; an error after which the driver refuses all work ends serving",
        "for good; forked children are passed through. *Retried* means: if the driver has no memory, the pool gives its idle",
        "segments back and the call is made once more.",
        "",
        "### Roads that lead around the library",
        "",
        "They are told, not served ([why](decisions/0011-no-front-library-a-search-instead.md)): the snapshot has a note for",
        "each, and the report a line under *not observed* that says what follows. The note comes when the process ends by",
        "`exit` or a return from `main`, or when the library is closed.",
        "",
        "| road | note | test |",
        "|---|---|---|",
        *(f"| {road} | {note} | {test} |" for road, note, test in ROADS_AROUND),
        "",
        "A program may mark the steps of its main loop with `cuheap_step` (`interpose/cuheap.h`).",
    ]
    lines += [
        "",
        "## Functions of frameworks",
        "",
        "PyTorch's own caching allocator reports every block that it hands out (a tensor) or takes back, and the",
        "out-of-memory error that it is about to raise, to PyTorch's profiler: `libc10_cuda` calls functions of `libc10`",
        "through its PLT, in every mode but with its cache off or `backend:cudaMallocAsync` (there each tensor is a call of",
        "the driver). Ours come first, record, and call the original, which is looked up with the first `cuInit`. Only",
        "CUDA devices count. A version that calls functions of other names is told under *not observed*.",
        "",
        "| exported name | what happens |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {'the tensor is recorded' if 'MemoryUsage' in name else 'the error is recorded'}; "
              "PyTorch's own is called |" for name in read_framework_functions()]
    lines += [
        "",
        "## Memory",
        "",
        "Every function of the driver API that allocates, frees, maps, exports, imports, registers or resizes memory, asks",
        "about it, works on it, or ends it with its context. Which they are is decided by a rule on names and parameters in",
        "`tests/interpose/memory_rule.py`; a test compares this table with the toolkit's headers. Functions of classes that",
        "are *recorded* appear in the live table, the snapshot and the report under the kind of their class.",
        "",
        "| function | since CUDA | class | what happens |",
        "|---|---|---|---|",
    ]
    lines += ["| " + ", ".join(f"`{name}`" for name in function.names) + f" | {version_text(function.version)} | "
              f"{function.memory_class} | {function.what_happens} |" for function in memory]
    for title, hooks in groups:
        others = [hook for hook in hooks if hook[0] not in in_memory_table]
        if not others:
            continue
        lines += ["", f"## {title}", "", "| function | since CUDA | what happens |", "|---|---|---|"]
        lines += [f"| `{name}` | {version_text(version)} | {effects[effect]} |" for name, version, effect in others]
    return "\n".join(lines) + "\n"


def options_page() -> str:
    text = (INTERPOSE / "options/options.inc").read_text()
    text = re.sub(r'"\s*\n\s*"', "", text)
    options = re.findall(r'^OPTION\((\w+), (\w+), "(\w+)", "(.*?)",\s*"(.*?)"', text, re.MULTILINE | re.DOTALL)
    kinds = {"Text": "text", "Flag": "0 or 1", "Number": "number", "Bytes": "bytes (`64m`, `1g`)", "Byte": "0 to 255, `0xff`, `off`",
             "Mode": "`default`, `pool`, `observe`", "Barrier": "`auto`, `always`, `never`",
             "Rule": "`none` or a rule"}
    lines = [
        "# Options of the preload library",
        "",
        "Made by `interpose/make_docs.py` from `interpose/options/options.inc`; do not edit. They are environment variables;",
        "`cuheap run` sets them from its flags. A value that is not understood is named on stderr at the first CUDA call, and",
        "the process then runs without cuheap.",
        "",
        "| variable | value | default | meaning |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{variable}` | {kinds[kind]} | {'`' + default + '`' if default else 'not set'} | {help_text} |"
              for kind, _, variable, default, help_text in options]
    return "\n".join(lines) + "\n"


def main() -> int:
    try:
        return write_or_check()
    except memory_functions.ListError as error:
        print(error)
        return 1


def write_or_check() -> int:
    pages = {ROOT / "docs/coverage.md": coverage_page(), ROOT / "docs/options.md": options_page()}
    if sys.argv[1:] != ["--check"]:
        for path, text in pages.items():
            path.write_text(text)
        return 0
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(f"{path.relative_to(ROOT)} is out of date: run interpose/make_docs.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
