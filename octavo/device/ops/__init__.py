"""Kernels: one op, one file, a torch reference beside every kernel.

Process: device
Step: 2 and 3
"""
