"""The API process: text and protocol.

Process: api
Step: none
"""
