"""Which functions of the driver API have to do with memory, told from the toolkit's headers alone.

The rule: a function counts if its name holds one of NAMES, or the type of one of its parameters is one of TYPES, and it
is not among EXCEPTIONS. It reads more than it must rather than less: what only looks like memory is excepted by name, with
the reason; what is missed needs a new pattern.
"""

import re
from dataclasses import dataclass

# The driver's functions; the interop headers declare theirs apart. Those that a toolkit lacks are left out.
HEADERS = ("cuda.h", "cudaEGL.h", "cudaGL.h", "cudaVDPAU.h")
TYPEDEF_HEADERS = ("cudaTypedefs.h", "cudaEGLTypedefs.h", "cudaGLTypedefs.h", "cudaVDPAUTypedefs.h")

NAMES = re.compile(
    r"Mem(?!ory)|Memory|Malloc|Alloc|Array|Pool|Pointer|Ipc|Multicast|Graphics|BufferObject|EGLStream\w+Frame"
    r"|(Tex|Surf)(Object|Ref(Set|Get)(Address(?!Mode)|Array|MipmappedArray))|TensorMap|GetGlobal|GetManaged|AddressRange|Checkpoint"
    r"|Register|CtxSetLimit|CtxGetLimit|Ctx(Destroy|Reset|Release|Detach)|^cuGraph(Exec)?(AddNode|NodeSetParams)")

# By value or behind a pointer. Handles and addresses of memory, and descriptions of it.
TYPES = re.compile(
    r"\b(CUdeviceptr(_v\d)?|CUarray|CUmipmappedArray|CUmemoryPool|CUmemGenericAllocationHandle|CUexternalMemory"
    r"|CUipcMemHandle|CUgraphicsResource|CUmem[A-Z]\w*|CUmem_\w+|CUmulticast\w*|CUpointer_attribute"
    r"|CUDA_(ARRAY3?D?_DESCRIPTOR|ARRAY_\w+|RESOURCE_DESC|MEMCPY\w+|MEM_\w+|MEMSET_\w+|EXTERNAL_MEMORY_\w+)(_v\d)?"
    r"|CUeglFrame)\b")

# Matched, but no memory of a program comes, goes or is described there.
EXCEPTIONS = {
    "cuCtxGetSharedMemConfig": "the banks of a multiprocessor's own memory",
    "cuCtxSetSharedMemConfig": "the banks of a multiprocessor's own memory",
    "cuFuncSetSharedMemConfig": "the banks of a multiprocessor's own memory",
    "cuOccupancyAvailableDynamicSMemPerBlock": "a multiprocessor's own memory",
    "cuIpcGetEventHandle": "events, not memory",
    "cuIpcOpenEventHandle": "events, not memory",
    "cuDeviceRegisterAsyncNotification": "a callback",
    "cuDeviceUnregisterAsyncNotification": "a callback",
    "cuLogsRegisterCallback": "a callback",
    "cuLogsUnregisterCallback": "a callback",
    "cuLogsDumpToMemory": "the driver's log, into a buffer of the program",
}


@dataclass
class Declaration:
    name: str  # as exported
    parameters: str
    header: str


def parse_header(text: str, header: str) -> dict[str, Declaration]:
    """Exported functions. Names that the header's macros turn into newer ones count under the exported name.

    #define and #undef are followed in their order, every branch of a conditional is taken: so the functions that only
    the toolkit's internal switch declares (older variants, _ptsz, _ptds) are found too.
    """
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL).replace("\\\n", " ")
    renamed: dict[str, list[str]] = {}
    found: dict[str, Declaration] = {}
    token = re.compile(
        r"^[ \t]*#[ \t]*define[ \t]+(?P<macro>cu[A-Z]\w+)[ \t]+"
        r"(?:__CUDA_API_(?P<kind>PTDS|PTSZ)\((?P<inner>\w+)\)|(?P<other>\w+))[ \t]*$"
        r"|^[ \t]*#[ \t]*undef[ \t]+(?P<undefined>cu[A-Z]\w+)"
        r"|\bCUresult\s+(?:CUDAAPI\s+)?(?P<name>cu[A-Z]\w+)\s*\((?P<parameters>(?:[^()]|\([^()]*\))*)\)\s*;",
        re.MULTILINE)
    for match in token.finditer(text):
        if match["inner"]:
            renamed[match["macro"]] = [match["inner"], f"{match['inner']}_{match['kind'].lower()}"]
        elif match["macro"]:
            renamed[match["macro"]] = [match["other"]]
        elif match["undefined"]:
            renamed.pop(match["undefined"], None)
        else:
            for name in renamed.get(match["name"], [match["name"]]):
                found.setdefault(name, Declaration(name, re.sub(r"\s+", " ", match["parameters"]).strip(), header))
    return found


def is_memory_function(declaration: Declaration) -> bool:
    base = re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", declaration.name)
    if base in EXCEPTIONS:
        return False
    types = ",".join(re.sub(r"\w+(\[\w*\])?$", "", parameter) for parameter in declaration.parameters.split(","))
    return bool(NAMES.search(base) or TYPES.search(types))


def missing(declarations: dict[str, Declaration], table: set[str]) -> list[str]:
    """One message for each memory function of the headers that the table lacks."""
    return [
        f"{declaration.header} declares {name}({declaration.parameters}), a memory function without a row in "
        "docs/coverage.md: hook it (interpose/hooked_functions.inc) or say why nothing is needed, add it to its class in "
        "interpose/memory_functions.list, and run interpose/make_docs.py; if it has nothing to do with memory, add it to "
        "EXCEPTIONS in tests/interpose/memory_rule.py"
        for name, declaration in sorted(declarations.items()) if name not in table and is_memory_function(declaration)
    ]


def toolkit_version(text: str) -> int:
    found = re.search(r"^#define CUDA_VERSION (\d+)", text, re.MULTILINE)
    return int(found[1]) if found else 0
