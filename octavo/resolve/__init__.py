"""What the user said to what will run.

Process: shared
Step: none
"""
