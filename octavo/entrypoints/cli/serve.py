"""``octavo serve``: arguments to configurations, then the supervisor."""

from __future__ import annotations

from octavo.config.args import EngineArgs, ServerArgs
from octavo.config.cli import parse
from octavo.kit.env import read_environment
from octavo.kit.log import set_up_logging
from octavo.launch.serve import serve
from octavo.resolve.load import load_config
from octavo.resolve.server import resolve_server

_ABOUT = "Serve a model over HTTP, with the OpenAI API. Without MODEL, the demo model."


def run(argv: list[str]) -> int:
    """Serve until a signal, and return the exit code."""
    args, server_args = parse(argv, EngineArgs, ServerArgs, prog="octavo serve", about=_ABOUT)
    env = read_environment()
    server = resolve_server(server_args, env)
    config = load_config(args, env)
    set_up_logging("root", config.log_level)
    return serve(config, server)
