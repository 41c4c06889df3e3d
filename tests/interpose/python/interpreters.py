"""The Python interpreters of this machine, for tests that run on each of several versions."""
import os
import pathlib


def find_python(wanted):
    """The interpreter of a version such as "3.11" ("system": /usr/bin/python3), or None."""
    if wanted == "system":
        return "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else None
    root = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"
    found = sorted(root.glob(f"{wanted}.*/bin/python{wanted}"))
    if found:
        return str(found[-1])
    system = pathlib.Path("/usr/bin") / f"python{wanted}"
    return str(system) if system.exists() else None


def find_library(wanted):
    """The shared libpython of a version, or None."""
    python = find_python(wanted)
    if python is None:
        return None
    found = sorted((pathlib.Path(python).resolve().parents[1] / "lib").glob(f"libpython{wanted}.so.*"))
    return str(found[-1]) if found else None


def clean_environment(**changes):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CUHEAP_", "SIMCUDA_", "LD_", "PYTHON"))}
    return {**kept, "LC_ALL": "C.UTF-8", **changes}
