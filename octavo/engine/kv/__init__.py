"""Block accounting: integers only, no tensors.

Process: engine
Step: 1 and 4
"""
