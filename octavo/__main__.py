"""``python -m octavo`` is the command ``octavo``."""

from __future__ import annotations

import sys

from octavo.entrypoints.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
