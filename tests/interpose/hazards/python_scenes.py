"""Hazards of Python programs: python_scenes.py SCENE. They reach the driver by ctypes and print what they see."""
import ctypes
import os
import signal
import sys
import threading

DRIVER = ctypes.CDLL("libcuda.so.1")
BLOCKS = []


def call(name, *arguments):
    result = getattr(DRIVER, name)(*arguments)
    if result != 0:
        print(name, result)
    return result


def start_device():
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    return context


def allocate(size):
    address = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
    return address


def keep(size):
    BLOCKS.append(allocate(size))


def profiled():
    """A handler in Python, run between bytecodes, every millisecond; it allocates as well."""
    samples = []

    def sample(_number, _frame):
        samples.append(allocate(2000))
        call("cuMemFree_v2", samples[-1])

    signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
    while len(samples) < 50:
        call("cuMemFree_v2", allocate(3000))
    signal.setitimer(signal.ITIMER_PROF, 0, 0)
    keep(5000)
    print("sampled", len(samples) >= 50)


def forked():
    """Children that only compute, one of which ends as multiprocessing's do."""
    keep(5000)
    for end in (os._exit, sys.exit):
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            result = DRIVER.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(100))
            end(result)
        print("child ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def left():
    keep(5000)
    print("leaving", flush=True)
    os._exit(9)


def threads_at_end(context):
    """Daemon threads that allocate while the interpreter ends."""
    def work():
        call("cuCtxSetCurrent", context)
        while True:
            call("cuMemFree_v2", allocate(3000))

    for _ in range(3):
        threading.Thread(target=work, daemon=True).start()
    keep(5000)
    print("ending")


def main():
    context = start_device()
    scene = sys.argv[1]
    if scene == "threads_at_end":
        threads_at_end(context)
    else:
        {"profiled": profiled, "forked": forked, "left": left}[scene]()


main()
