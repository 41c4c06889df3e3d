"""The driver through ctypes: ten blocks of 1 MiB that stay, one that is freed. Prints results, no addresses."""
import ctypes

driver = ctypes.CDLL("libcuda.so.1")
device, context, block = ctypes.c_int(-1), ctypes.c_void_p(), ctypes.c_uint64()
print("init", driver.cuInit(0))
print("device", driver.cuDeviceGet(ctypes.byref(device), 0))
print("retain", driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
print("current", driver.cuCtxSetCurrent(context))
for _ in range(10):
    result = driver.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1 << 20))  # TEN BLOCKS
    print("allocate", result, "address" if block.value else "none")
word, back = ctypes.c_uint32(0xABCD1234), ctypes.c_uint32()
print("copies", driver.cuMemcpyHtoD_v2(block, ctypes.byref(word), ctypes.c_size_t(4)),
      driver.cuMemcpyDtoH_v2(ctypes.byref(back), block, ctypes.c_size_t(4)), hex(back.value))
print("one more", driver.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1 << 20)),
      "freed", driver.cuMemFree_v2(block))
