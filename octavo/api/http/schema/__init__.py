"""Requests and answers of each protocol.

Process: api
Step: none
"""
