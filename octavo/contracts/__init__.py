"""Every type that crosses a process boundary.

Process: shared
Step: none
"""
