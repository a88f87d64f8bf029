"""Protocol in, protocol out. No serving logic.

Process: api
Step: none
"""
