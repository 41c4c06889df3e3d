#!/usr/bin/env python3
"""Generates the entry points of the simulated libcuda.so.1 from the toolkit's public headers.

Everything exported is generated, so that every documented name exists and every call goes through the same steps
(initialisation check, injected faults, log). A name whose implementation `CUresult impl::NAME(` is found in one of the
driver's sources calls it; any other name answers CUDA_ERROR_NOT_SUPPORTED and says so once on stderr.

Written files (only touched when their content changes):
  entry_points.h      declarations of impl::NAME for every distinct signature, and the table of names
  entry_points_N.cc   the exported functions, split so that they compile in parallel
  proc_address.inc    (name, version, per-thread) -> exported symbol, for cuGetProcAddress
  error_codes.inc     the CUresult enumerators
  simulated.txt       one line a name: "simulated" or "not_supported"
"""

import argparse
import pathlib
import re
import subprocess
import sys

HEADERS = ["cuda.h", "cudaProfiler.h"]
TYPEDEF_HEADERS = ["cudaTypedefs.h", "cudaProfilerTypedefs.h"]

# Older variants whose signature is the one of the newer: the same implementation serves both.
SAME_AS = {
    "cuCtxCreate": "cuCtxCreate_v2",
    "cuCtxDestroy": "cuCtxDestroy_v2",
    "cuCtxPopCurrent": "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent": "cuCtxPushCurrent_v2",
    "cuStreamDestroy": "cuStreamDestroy_v2",
    "cuEventDestroy": "cuEventDestroy_v2",
    "cuDevicePrimaryCtxRelease": "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxReset": "cuDevicePrimaryCtxReset_v2",
    "cuDevicePrimaryCtxSetFlags": "cuDevicePrimaryCtxSetFlags_v2",
    "cuMemHostRegister": "cuMemHostRegister_v2",
    "cuLinkCreate": "cuLinkCreate_v2",
    "cuLinkAddData": "cuLinkAddData_v2",
    "cuLinkAddFile": "cuLinkAddFile_v2",
    "cuIpcOpenMemHandle": "cuIpcOpenMemHandle_v2",
    "cuGraphicsResourceSetMapFlags": "cuGraphicsResourceSetMapFlags_v2",
    "cuEventElapsedTime": "cuEventElapsedTime_v2",
    "cuDeviceGetUuid": "cuDeviceGetUuid_v2",
    "cuStreamWriteValue32": "cuStreamWriteValue32_v2",
    "cuStreamWaitValue32": "cuStreamWaitValue32_v2",
    "cuStreamWriteValue64": "cuStreamWriteValue64_v2",
    "cuStreamWaitValue64": "cuStreamWaitValue64_v2",
    "cuStreamBatchMemOp": "cuStreamBatchMemOp_v2",
}

# Documented to work before cuInit (Driver API reference: cuInit, Version Management, Error Handling, Driver Entry Point
# Access), or answered from constants.
BEFORE_INIT = {
    "cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuGetProcAddress", "cuGetProcAddress_v2",
}

# Pointer parameters that are not one output value: they are logged as addresses only.
NOT_OUTPUT = {"kernelParams", "extra", "options", "optionValues", "optionsValues", "jitOptions", "jitOptionsValues",
              "libraryOptions", "libraryOptionValues", "buffer", "attributes", "data", "dependencies", "nodes",
              "paramArray", "paramsArray", "ctxCreateParams", "luid", "name", "pciBusId", "dsts", "srcs", "sizes",
              "dptrs", "streams", "kernels", "functions", "resources", "prefetchLocIdxs", "attrsIdxs", "p", "pp_", "from", "to",
              "rootNodes", "dependentNodes", "phErrorNode", "hErrorNode_out",
              "userData", "value_", "handleRaw"}

# Types whose pointee is printed when the call succeeded, and how.
HEX_OUT = {"CUdeviceptr", "CUdeviceptr_v2", "CUdeviceptr_v1", "CUcontext", "CUmodule", "CUfunction", "CUlibrary",
           "CUkernel", "CUstream", "CUevent", "CUmemoryPool", "void *", "CUgraph", "CUgraphExec", "CUgraphNode",
           "CUarray", "CUuserObject", "CUmemGenericAllocationHandle", "CUtexObject", "CUsurfObject", "CUgreenCtx"}
DEC_OUT = {"int", "unsigned int", "size_t", "unsigned long long", "cuuint64_t", "cuuint32_t", "float", "CUdevice",
           "CUdevice_v1", "CUstreamCaptureStatus", "CUstreamCaptureMode", "CUlimit", "CUdriverProcAddressQueryResult"}


def fail(message):
    sys.exit(f"generate_entry_points.py: {message}")


def preprocess(compiler, include, headers):
    # The internal switch makes the headers declare every exported variant, old ones and per-thread ones included.
    text = "#define __CUDA_API_VERSION_INTERNAL\n" + "".join(f"#include <{h}>\n" for h in headers)
    result = subprocess.run([compiler, "-E", "-P", "-x", "c++", "-I", include, "-"], input=text, text=True,
                            capture_output=True)
    if result.returncode != 0:
        fail(f"preprocessing failed:\n{result.stderr}")
    return re.sub(r"\s+", " ", result.stdout)


def split_parameters(text):
    text = text.strip()
    if text in ("", "void"):
        return []
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "(["
        depth -= c in ")]"
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    result = []
    for part in parts:
        match = re.fullmatch(r"\s*(.*?)\s*\b(\w+)\s*(\[\w*\])?\s*", part)
        if not match:
            fail(f"cannot parse parameter '{part}'")
        kind, name, array = match.groups()
        kind = re.sub(r"\s*\*\s*", " *", kind).replace("* *", "**").strip()
        if array:
            kind += " *"
        result.append((kind, name))
    return result


def parse_functions(text):
    functions = {}
    declaration = r"CUresult (cu\w+)\s*\(((?:[^()]|\([^()]*\))*)\)\s*(?:__attribute__\(\(\w+\)\)\s*)?;"
    for match in re.finditer(declaration, text):
        name, parameters = match.group(1), split_parameters(match.group(2))
        if name in functions and [t for t, _ in functions[name]] != [t for t, _ in parameters]:
            fail(f"{name} is declared twice with different parameters")
        functions.setdefault(name, parameters)
    return functions


def base_name(symbol):
    return re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", symbol)


def variant(symbol):
    match = re.search(r"_v(\d+)(_ptsz|_ptds)?$", symbol)
    return int(match.group(1)) if match else 1


def pair_versions(functions, typedef_text):
    """(name, version, per-thread) -> exported symbol.

    cudaTypedefs.h lists for each name the versions in which its signature changed, cuda.h the exported variants; both
    lists ascend, so they pair up one to one.
    """
    versions, symbols = {}, {}
    for match in re.finditer(r"PFN_(cu\w+?)_v(\d{4,5})(_ptsz|_ptds)?\s*\)", typedef_text):
        name, version, suffix = match.group(1), int(match.group(2)), match.group(3)
        versions.setdefault((name, bool(suffix)), set()).add(version)
    for symbol in functions:
        per_thread = symbol.endswith(("_ptsz", "_ptds"))
        symbols.setdefault((base_name(symbol), per_thread), []).append(symbol)
    table = []
    for key in sorted(set(versions) | set(symbols)):
        have, want = sorted(symbols.get(key, []), key=variant), sorted(versions.get(key, []))
        if len(have) != len(want):
            fail(f"{key[0]} (per-thread: {key[1]}): exported {have} but typedefs for {want}")
        table += [(key[0], version, key[1], symbol) for version, symbol in zip(want, have)]
    return table


def write(path, text):
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def signature(parameters):
    return ", ".join(f"{kind}{'' if kind.endswith('*') else ' '}{name}" for kind, name in parameters)


def log_statements(parameters):
    before, after = [], []
    for kind, name in parameters:
        if kind == "const char *":
            before.append(f'line_.Text("{name}", {name});')
        elif kind.endswith("*"):
            before.append(f'line_.Pointer("{name}", {name});')
            pointee = kind[:-1].strip()
            if name in NOT_OUTPUT or kind.startswith("const "):
                continue
            if pointee in HEX_OUT:
                after.append(f'if ({name} != nullptr) line_.Hex("*{name}", {name});')
            elif pointee in DEC_OUT:
                after.append(f'if ({name} != nullptr) line_.Decimal("*{name}", *{name});')
        elif kind in ("CUdeviceptr", "CUdeviceptr_v2", "CUdeviceptr_v1", "CUmemGenericAllocationHandle"):
            before.append(f'line_.Pointer("{name}", {name});')
        else:
            before.append(f'line_.Value("{name}", {name});')
    return before, after


def entry_point(symbol, parameters, implemented):
    plain = re.sub(r"(_ptsz|_ptds)$", "", symbol)
    target = SAME_AS.get(plain, plain)
    flags = []
    if plain != symbol:
        flags.append("kPerThread")
    if plain in BEFORE_INIT:
        flags.append("kBeforeInit")
    if target not in implemented:
        flags.append("kNotSimulated")
    before, after = log_statements(parameters)
    exported = 'extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI'
    lines = [f'{exported} {symbol}({signature(parameters) or "void"}) {{',
             f'  static const EntryInfo kInfo{{"{symbol}", {" | ".join(flags) or "0"}}};',
             "  Call call_(kInfo);",
             "  CUresult result_ = call_.Begin();"]
    if target in implemented:
        arguments = ", ".join(name for _, name in parameters)
        lines.append(f"  if (result_ == CUDA_SUCCESS) result_ = call_.Finish(impl::{target}({arguments}));")
    lines.append("  if (call_.logging()) {")
    lines.append("    LogLine line_(call_);")
    lines += ["    " + statement for statement in before]
    if after:
        lines.append("    if (result_ == CUDA_SUCCESS) {")
        lines += ["      " + statement for statement in after]
        lines.append("    }")
    lines += ["    line_.Result(result_);", "  }", "  return result_;", "}"]
    return target in implemented, "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("sources", nargs="+", type=pathlib.Path)
    args = parser.parse_args()

    header_text = preprocess(args.compiler, args.include, HEADERS)
    functions = parse_functions(header_text)
    table = pair_versions(functions, preprocess(args.compiler, args.include, TYPEDEF_HEADERS))

    implemented = set()
    for source in args.sources:
        implemented |= set(re.findall(r"^CUresult impl::(cu\w+)\(", source.read_text(), re.M))
    plain = {re.sub(r"(_ptsz|_ptds)$", "", s): p for s, p in sorted(functions.items())}
    unknown = implemented - set(plain)
    if unknown:
        fail(f"implemented but not declared by the headers: {sorted(unknown)}")
    for name, other in SAME_AS.items():
        # Newer headers may drop a variant; when both are there, the types must agree.
        if name in plain and other in plain and [t for t, _ in plain[name]] != [t for t, _ in plain[other]]:
            fail(f"{name} and {other} differ in their parameters")

    args.out.mkdir(parents=True, exist_ok=True)
    note = "// Generated by tools/simcuda/generate_entry_points.py from the toolkit's headers.\n"
    header = [note, "#pragma once", '#include "tools/simcuda/driver/cuda_api.h"', "namespace simcuda::impl {"]
    header += [f"CUresult {s}({signature(p)});" for s, p in plain.items()]
    header += ["}  // namespace simcuda::impl", ""]
    write(args.out / "entry_points.h", "\n".join(header))

    parts, states = [[] for _ in range(args.parts)], []
    for i, (symbol, parameters) in enumerate(sorted(functions.items())):
        simulated, text = entry_point(symbol, parameters, implemented)
        parts[i * args.parts // len(functions)].append(text)
        states.append(f"{symbol} {'simulated' if simulated else 'not_supported'}")
    for i, bodies in enumerate(parts):
        text = [note, '#include "entry_points.h"', '#include "tools/simcuda/driver/call.h"',
                        '#include "tools/simcuda/driver/log.h"', "using namespace simcuda;"]
        write(args.out / f"entry_points_{i}.cc", "\n".join(text + bodies) + "\n")
    write(args.out / "simulated.txt", "\n".join(states) + "\n")

    rows = [f'{{"{name}", {version}, {str(per_thread).lower()}, "{symbol}", reinterpret_cast<void*>(&::{symbol})}},'
            for name, version, per_thread, symbol in table]
    write(args.out / "proc_address.inc", note + "\n".join(rows) + "\n")
    codes = re.findall(r"(CUDA_(?:SUCCESS|ERROR_\w+)) = \d+", header_text)
    lines = [f"SIMCUDA_ERROR({code})" for code in dict.fromkeys(codes)]
    write(args.out / "error_codes.inc", note + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
