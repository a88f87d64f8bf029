"""Weight and activation formats.

Process: device
Step: 2 execute
"""
