"""Frozen values, one file per domain, and what the user may say.

Process: shared
Step: none
"""
