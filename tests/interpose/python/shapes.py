"""Allocates under every shape of Python stack there is, each block with a size of its own, and writes what Python says.

usage: shapes.py OUTPUT    (under cuheap; any CPython from 3.9 on, nothing but the standard library)

OUTPUT is JSON: {"version": [3, 11], "stacks": {"<bytes>": {"shape": name, "frames": [[file, line, name], ...]}}},
frames innermost first, as traceback has them at the very line of the allocation.
"""
import asyncio
import ctypes
import functools
import gc
import json
import sys
import threading
import traceback

CUDA = ctypes.CDLL("libcuda.so.1")
CUDA_WITH_LOCK = ctypes.PyDLL("libcuda.so.1")  # calls without releasing the GIL
EXPECTED = {}
NEXT = [512]
LOCK = threading.Lock()


def check(result):
    if result != 0:
        raise SystemExit(f"shapes.py: the driver answered {result}")


def prepare():
    check(CUDA.cuInit(0))
    context = ctypes.c_void_p()
    check(CUDA.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    use_context(context)
    return context


def use_context(context):
    check(CUDA.cuCtxSetCurrent(context))


def name_of(frame):
    return getattr(frame.f_code, "co_qualname", frame.f_code.co_name)  # 3.11 and later


def frames_from(start):
    return [(frame.f_code.co_filename, line, name_of(frame)) for frame, line in traceback.walk_stack(start)]


def new_size(shape, frames):
    with LOCK:
        size = NEXT[0]
        NEXT[0] += 1
        EXPECTED[size] = {"shape": shape, "frames": frames}
    return size


def allocate(shape, library=CUDA):
    address = ctypes.c_uint64()
    frame = sys._getframe()
    caller = frames_from(frame.f_back)
    # traceback, and the call of the driver, in one line: nothing may be different between the two.
    summary, frames = traceback.extract_stack(frame), frames_from(frame); size = new_size(shape, frames); result = library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
    check(result)
    if [(entry.filename, entry.lineno) for entry in reversed(summary)] != [(file, line) for file, line, _ in frames]:
        raise SystemExit("shapes.py: the two ways of asking Python disagree")
    if frames[1:] != caller:
        raise SystemExit("shapes.py: the caller's frames changed")


# ---- the shapes ----


def plain():
    allocate("plain")
    allocate("plain, second line")


def with_lock_held():
    allocate("the GIL held over the call", CUDA_WITH_LOCK)


def recursion(depth):
    if depth == 0:
        allocate("recursion")
    else:
        recursion(depth - 1)


def recursion_through_c(depth):
    if depth == 0:
        allocate("recursion through C")
    else:
        functools.reduce(lambda _, d: recursion_through_c(d), [depth - 1], None)


def generators():
    def inner():
        allocate("generator")
        yield 1
        allocate("generator, resumed")
        yield 2

    def outer():
        allocate("outer generator")
        yield from inner()
        yield from (allocate("generator expression") for _ in range(2))

    for _ in outer():
        pass
    list(outer())
    thrower = inner()
    next(thrower)

    def catching():
        try:
            yield
        except ValueError:
            allocate("generator, thrown into")
            yield

    catcher = catching()
    next(catcher)
    catcher.throw(ValueError())
    closing = (allocate("sent") for _ in range(1))
    next(closing)


def coroutines():
    async def leaf(shape):
        await asyncio.sleep(0)
        allocate(shape)

    async def numbers():
        for i in range(2):
            allocate("async generator")
            yield i

    class Manager:
        async def __aenter__(self):
            allocate("__aenter__")

        async def __aexit__(self, *_):
            allocate("__aexit__")

    async def branch():
        await leaf("coroutine")
        await asyncio.gather(leaf("gathered 1"), leaf("gathered 2"))
        async for _ in numbers():
            pass
        async with Manager():
            allocate("async with")
        [x async for x in numbers()]
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        loop.call_soon(lambda: (allocate("call_soon"), done.set_result(None)))
        await done

    asyncio.run(branch())


def c_callbacks():
    compare_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

    @compare_type
    def compare(_, __):
        allocate("qsort")
        return 0

    libc = ctypes.CDLL(None)
    array = (ctypes.c_int * 2)(2, 1)
    libc.qsort(array, 2, 4, compare)
    sorted([2, 1], key=lambda x: (allocate("sort key"), x)[1])
    functools.reduce(lambda a, b: (allocate("reduce"), a + b)[1], [1, 2, 3])
    list(map(lambda _: allocate("map"), [1]))
    [*filter(lambda _: allocate("filter"), [1])]
    max([1], key=lambda _: (allocate("max"), 0)[1])

    class Compares:
        def __lt__(self, _):
            allocate("__lt__")
            return False

    sorted([Compares(), Compares()])

    @functools.lru_cache(None)
    def cached():
        allocate("lru_cache")

    cached()
    functools.partial(allocate, "partial")()
    functools.partial(lambda shape: allocate(shape), "partial of a lambda")()


def executed():
    exec("allocate('exec')\n\n\nallocate('exec, later line')", {"allocate": allocate})
    eval("allocate('eval')", {"allocate": allocate})
    scope = {"allocate": allocate}
    exec(compile("def made():\n\n  return [\n    allocate('compiled')\n  ]\n", "/nowhere/made.py", "exec"), scope)
    scope["made"]()
    exec("class Body:\n  x = 1\n  allocate('class body of exec')", {"allocate": allocate})


def decorated():
    def decorator(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args)

        return wrapper

    @decorator
    @decorator
    def inner():
        allocate("decorated")

    inner()

    @(lambda function: (allocate("decorator expression"), function)[1])
    def unused():
        pass


def comprehensions():
    [allocate("list comprehension") for _ in range(2)]
    {allocate("set comprehension") for _ in range(1)}
    {i: allocate("dict comprehension") for i in range(1)}
    [[allocate("nested comprehension") for _ in range(1)] for _ in range(1)]


def objects():
    class Thing:
        allocate("class body")

        def __init__(self):
            allocate("__init__")

        def __del__(self):
            allocate("__del__")

        @property
        def value(self):
            allocate("property")

        def __getattr__(self, name):
            allocate("__getattr__")
            return 1

        def __getitem__(self, index):
            allocate("__getitem__")
            return index

        def __add__(self, other):
            allocate("__add__")
            return self

        def __call__(self):
            allocate("__call__")

        def __enter__(self):
            allocate("__enter__")

        def __exit__(self, *_):
            allocate("__exit__")

        def __repr__(self):
            allocate("__repr__")
            return ""

        @staticmethod
        def static():
            allocate("static method")

        @classmethod
        def of_class(cls):
            allocate("class method")

    for _ in range(20):  # long enough for the interpreter to specialise its instructions
        thing = Thing()
        thing.value
        thing.missing
        thing[0]
        thing + 1
        thing()
        f"{thing!r}"
        Thing.static()
        thing.of_class()
    with thing:
        allocate("with")
    del thing
    cycle = [Thing()]
    cycle.append(cycle)
    del cycle
    gc.collect()

    class Derived(Thing):
        def __init__(self):
            super().__init__()
            allocate("after super")

    Derived()


def exceptions():
    try:
        raise ValueError
    except ValueError:
        allocate("except")
    finally:
        allocate("finally")
    try:
        try:
            {}["missing"]
        except KeyError as error:
            allocate("except as")
            raise RuntimeError from error
    except RuntimeError:
        allocate("outer except")
    try:
        pass
    finally:
        allocate("finally, nothing raised")
    for _ in range(1):
        try:
            continue
        finally:
            allocate("finally, continued")


def two_arguments(a, b):
    return a, b


def many_lines():
    two_arguments(
        1,
        allocate(
            "multi-line call"
        ),
    )
    value = (
        1
        + len([
            allocate("multi-line expression"),
        ])
    )
    if (
        value
        and allocate("multi-line condition") is None
    ):
        (two_arguments)(
            allocate("first argument"),
            allocate("second argument"))
    return (
        allocate
        ("name and parenthesis apart")
    )


def short_lived_code():
    """Code objects that die, so that others get their memory: same names, same sizes, other lines."""
    for round_number in range(300):
        blank = round_number % 7
        tail = 6 - blank
        source = "def made():\n" + "  pass\n" * blank + "  allocate('short-lived code')\n" + "  pass\n" * tail
        scope = {"allocate": allocate}
        exec(compile(source, "<short-lived>", "exec"), scope)
        scope["made"]()
        del scope
        gc.collect(0)
    for round_number in range(100):
        scope = {"allocate": allocate}
        exec(compile("allocate('short-lived module code')", f"<cell {round_number % 10}>", "exec"), scope)


def odd_names():
    scope = {"allocate": allocate}
    for name, file in [("größe", "/tmp/straße.py"), ("имя", "/путь/файл.py"), ("名前", "/路径/文件.py"), ("𝔘nicode", "/tmp/𝔘😀.py"),
                       ("plain", "/tmp/é.py"), ("plain", "/tmp/" + "long/" * 200 + "file.py"), ("x" * 300, "/tmp/" + "é" * 300)]:
        exec(compile(f"def {name}():\n  allocate('odd names')\n{name}()", file, "exec"), scope)


class DerivedText(str):
    """Code objects take its instances for names."""


def derived_names():
    for name, file in [("derived", "/tmp/derived.py"), ("größe", "/tmp/é.py"), ("名前", "/tmp/𝔘😀.py"), ("d" * 300, "/tmp/" + "long/" * 200 + "file.py")]:
        def function():
            allocate("derived names")
        names = {"co_name": DerivedText(name), "co_filename": DerivedText(file)}
        if sys.version_info >= (3, 11):
            names["co_qualname"] = DerivedText(name)
        function.__code__ = function.__code__.replace(**names)
        function()


def long_function():
    """Line tables with long steps, and a function of many instructions."""
    lines = ["def far():"] + ["  x = 1"] * 400 + [""] * 1000 + ["  y = [" + ", ".join(["x"] * 300) + "]"]
    lines += ["  allocate('far line')"] + [""] * 70000 + ["  allocate('farther line')", "  return (", *["  x,"] * 50, "  allocate('back again'))"]
    scope = {"allocate": allocate}
    exec(compile("\n".join(lines), "<far>", "exec"), scope)
    scope["far"]()


def in_threads(context):
    stop = threading.Event()

    def busy():  # fights for the GIL, compiles and collects while others walk their frames
        while not stop.is_set():
            exec(compile("def f(): return [i for i in range(50)]\nf()", "<busy>", "exec"), {})
            gc.collect(0)

    def worker(number):
        use_context(context)
        for _ in range(30):
            allocate(f"thread {number % 2}")
            functools.reduce(lambda _, __: allocate("thread, through C"), [1, 2])
            exec("allocate('thread, exec')", {"allocate": allocate})
            list(allocate("thread, generator") for _ in range(1))

    others = [threading.Thread(target=busy) for _ in range(2)]
    workers = [threading.Thread(target=worker, args=(i,)) for i in range(3)]
    for thread in others + workers:
        thread.start()
    for thread in workers:
        thread.join()
    stop.set()
    for thread in others:
        thread.join()


def from_foreign_thread(context):
    """A thread that C made, which runs Python only inside a callback."""
    libc = ctypes.CDLL(None)

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    def body(_):
        use_context(context)
        allocate("thread of C")
        return None

    thread = ctypes.c_ulong()
    check(libc.pthread_create(ctypes.byref(thread), None, body, None))
    libc.pthread_join(thread, None)


def traced():
    """With a trace function set, the interpreter runs instrumented code."""
    def trace(*_):
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        allocate("traced")
        [allocate("traced comprehension") for _ in range(1)]
    finally:
        sys.settrace(previous)
    sys.setprofile(lambda *_: None)
    try:
        allocate("profiled")
    finally:
        sys.setprofile(None)


def main():
    context = prepare()
    plain()
    with_lock_held()
    recursion(20)
    recursion(300)
    recursion_through_c(4)
    sys.setrecursionlimit(3000)
    recursion(1000)
    generators()
    coroutines()
    c_callbacks()
    executed()
    decorated()
    comprehensions()
    objects()
    exceptions()
    many_lines()
    short_lived_code()
    odd_names()
    derived_names()
    long_function()
    in_threads(context)
    from_foreign_thread(context)
    traced()
    (lambda: allocate("lambda"))()
    allocate("last")
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump({"version": list(sys.version_info[:3]), "stacks": EXPECTED}, file)


allocate("not initialized") if False else main()
