"""One claim about the driver (claims.h), by itself; what calls cost is also asked under the preload library.

usage: claim.py PROGRAM CLAIM PRELOAD_LIBRARY DRIVER_FOLDER|gpu
"""

import os
import pathlib
import subprocess
import sys
import tempfile

GPU = "gpu"
WITH_US = {"cost_of_calls": ({"CUHEAP_MODE": "observe"}, {"CUHEAP_MODE": "default"}, {"CUHEAP_MODE": "default", "CUHEAP_STACKS": "0"})}


def run(program: str, claim: str, driver: str, preload: pathlib.Path | None, **more: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory(prefix="cuheap claim ") as journals:
        folders = [] if driver == GPU else [driver]
        environment = os.environ | more
        if preload is not None:
            folders.append(str(preload.parent))
            environment |= {"LD_PRELOAD": preload.name, "CUHEAP_DIR": journals}
        paths = folders + [path for path in (os.environ.get("LD_LIBRARY_PATH"),) if path]
        return subprocess.run([program, claim], env=environment | {"LD_LIBRARY_PATH": ":".join(paths)}, capture_output=True,
                              text=True, check=False, timeout=300)


def main() -> int:
    program, claim, preload, driver = sys.argv[1:]
    done = run(program, claim, driver, None)
    print(done.stderr + done.stdout, end="")  # the verdict last
    for more in WITH_US.get(claim, ()) if done.returncode == 0 else ():
        named = ", ".join(f"{name}={value}" for name, value in more.items())
        ours = run(program, claim, driver, pathlib.Path(preload), **more)
        print(ours.stdout.replace("figure: ", f"figure: [{named}] ") + ours.stderr, end="")
        if ours.returncode != 0:
            return ours.returncode
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
