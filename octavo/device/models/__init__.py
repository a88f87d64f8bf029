"""Architectures, one file per model_type; thin assembly of layers.

Process: device
Step: 2 execute
"""
