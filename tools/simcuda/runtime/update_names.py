#!/usr/bin/env python3
"""Writes the list of documented names of a library that the simulated CUDA stands for, from the toolkit's headers.

usage: update_names.py OUTPUT.inc HEADER...

Takes every function a header declares with the library's API macro (cuda_runtime_api.h: CUDARTAPI; cublas_api.h:
CUBLASAPI or CUBLASWINAPI), and the _ptds and _ptsz variants the header names. The lists lie in the tree, so that a
build exports the same names whatever headers the machine has; tests/tools/simcuda_runtime compares them with those.
"""

import re
import sys

DECLARED = re.compile(r"\b(?:CUDARTAPI|CUBLASAPI|CUBLASWINAPI)\s+(\w+)\s*\(")
# cublasLt.h puts the macro before the return type, on one line or two: cublasStatus_t CUBLASWINAPI cublasLtCreate(
VARIANT = re.compile(r"#\s*define\s+(\w+)\s+__CUDART_API_(PTDS|PTSZ)\((\w+)\)")


def names_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", file.read(), flags=re.S)
    names = set(DECLARED.findall(text))
    for _, kind, name in VARIANT.findall(text):
        names.add(name)
        names.add(f"{name}_{kind.lower()}")
    # Versioned names that a macro turns the plain one into.
    names.update(re.findall(r"#\s*define\s+cuda\w+\s+(cuda\w+_v\d+)\b", text))
    return names


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    output, headers = sys.argv[1], sys.argv[2:]
    names = sorted(set().union(*(names_of(header) for header in headers)))
    with open(output, "w", encoding="utf-8") as file:
        file.write("// Written by update_names.py from the toolkit's headers: every documented name.\n")
        for name in names:
            file.write(f"NAME({name})\n")
    print(f"{output}: {len(names)} names")


if __name__ == "__main__":
    main()
