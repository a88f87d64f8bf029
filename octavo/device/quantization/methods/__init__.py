"""Quantization schemes, one file each.

Process: device
Step: 2 execute
"""
