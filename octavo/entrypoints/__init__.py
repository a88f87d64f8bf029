"""What a person runs: the command line and the offline class.

Process: top
Step: none
"""
