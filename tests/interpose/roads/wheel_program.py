"""An extension of a wheel that finds its CUDA runtime by a run path: wheel_program.py EXTENSION"""
import ctypes
import sys

print("status", ctypes.CDLL(sys.argv[1]).cuheap_test_use_wheel())
