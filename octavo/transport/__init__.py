"""Bytes between processes; knows no message type.

Process: shared
Step: none
"""
