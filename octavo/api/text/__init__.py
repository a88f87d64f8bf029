"""Text in and out of tokens.

Process: api
Step: none
"""
