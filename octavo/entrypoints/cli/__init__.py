"""The octavo command, one file per sub-command.

Process: top
Step: none
"""
