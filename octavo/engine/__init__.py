"""The iteration loop: schedule, execute, sample, update.

Process: engine
Step: all
"""
