"""The only code that knows how many workers exist.

Process: engine
Step: 2 and 3
"""
