"""Building blocks that hold weights.

Process: device
Step: 2 execute
"""
