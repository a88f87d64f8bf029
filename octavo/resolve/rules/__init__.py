"""Named rules that complete a configuration, one file per domain.

Process: shared
Step: none
"""
