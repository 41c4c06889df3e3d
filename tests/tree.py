"""What the checks of the whole tree share: which files there are, and which of them are code."""

import pathlib
import subprocess

CODE_SUFFIXES = {".h", ".hpp", ".cc", ".cpp", ".cu", ".c", ".inc"}
SCRIPT_SUFFIXES = {".py", ".sh", ".js", ".css", ".html"}


def source_files(root: pathlib.Path) -> list[pathlib.Path]:
    """Paths relative to root of every file that belongs to the tree: git's answer, or all but build/ without git."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    ) if (root / ".git").exists() else None
    if listed is not None and listed.returncode == 0:
        names = [pathlib.Path(name) for name in listed.stdout.decode().split("\0") if name]
    else:
        names = [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
        names = [name for name in names if name.parts[0] not in ("build", ".git") and "__pycache__" not in name.parts]
    return sorted(name for name in names if (root / name).is_file())


def read_text(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def is_script(root: pathlib.Path, name: pathlib.Path) -> bool:
    if name.suffix in SCRIPT_SUFFIXES:
        return True
    with open(root / name, "rb") as file:
        return file.read(2) == b"#!"
