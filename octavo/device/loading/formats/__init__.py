"""Weight formats, one file each.

Process: device
Step: none
"""
