"""Checkpoints to parameters.

Process: device
Step: none
"""
