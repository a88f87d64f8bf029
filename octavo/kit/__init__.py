"""Four small things everyone needs: errors, extension points, environment, logging.

Process: shared
Step: none
"""
