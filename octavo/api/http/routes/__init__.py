"""HTTP routes, one file per resource.

Process: api
Step: none
"""
