"""Fakes that tests and benchmarks share.

Process: shared
Step: none
"""
