"""Triton kernels for CUDA devices; each names the torch reference it must equal.

Process: device
Step: 2 and 3
"""
