"""Tokens to hidden states.

Process: device
Step: 2 execute
"""
