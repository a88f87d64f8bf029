"""Hardware facts, chosen once.

Process: shared
Step: none
"""
