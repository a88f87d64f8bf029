"""Configs that need their own reading, one file per model_type.

Process: shared
Step: none
"""
