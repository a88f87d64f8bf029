"""Apply what the device produced.

Process: engine
Step: 4 update
"""
