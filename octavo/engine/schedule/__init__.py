"""Decide which requests run in this step, and with how many tokens.

Process: engine
Step: 1 schedule
"""
