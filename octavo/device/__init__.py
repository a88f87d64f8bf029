"""The process shell of a device: a scheduled batch in, tokens out.

Process: device
Step: 2 and 3
"""

from octavo.kit.env import let_threads_sleep

# Here, because nothing in this package can import torch earlier.
let_threads_sleep()
