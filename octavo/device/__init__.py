"""The process shell of a device: a scheduled batch in, tokens out.

Process: device
Step: 2 and 3
"""
