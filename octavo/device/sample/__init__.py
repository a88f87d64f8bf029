"""Hidden states to tokens.

Process: device
Step: 3 sample
"""
