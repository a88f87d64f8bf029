"""Admission and output delivery. Never schedules.

Process: api
Step: none
"""
