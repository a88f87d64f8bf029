"""Composition root: the only place that names all three processes.

Process: top
Step: none
"""
