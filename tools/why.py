"""Print the shortest chain of imports from one module or package to another.

Usage: why.py octavo.api octavo.kit
"""

from __future__ import annotations

import sys

import grimp


def main(arguments: list[str]) -> int:
    """Print the chain between the two names; 1 when there is none."""
    if len(arguments) != 2:
        print(__doc__)
        return 2
    source, target = arguments
    graph = grimp.build_graph("octavo", include_external_packages=True)
    if missing := [name for name in arguments if name not in graph.modules]:
        print(f"no module is called {' or '.join(missing)}")
        return 2
    chain = graph.find_shortest_chain(source, target, as_packages=True)
    if chain is None:
        print(f"{source} does not import {target}, not even through others")
        return 1
    for step, module in enumerate(chain):
        print(f"{'  ' * step}{module}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
