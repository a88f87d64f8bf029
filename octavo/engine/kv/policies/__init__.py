"""Kinds of cache, one file each.

Process: engine
Step: 1 and 4
"""
