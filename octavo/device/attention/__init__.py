"""How attention runs on this hardware.

Process: device
Step: 2 execute
"""
