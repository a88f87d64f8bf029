"""Groups and collectives.

Process: device
Step: 2 and 3
"""
