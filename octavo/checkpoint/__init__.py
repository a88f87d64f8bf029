"""Model files without tensors: what is on disk, and where.

Process: shared
Step: none
"""
