"""What the user said about the HTTP server, to its configuration."""

from __future__ import annotations

from octavo.config.args import ServerArgs
from octavo.config.frontend import ServerConfig
from octavo.kit.env import Environment
from octavo.kit.errors import ConfigError
from octavo.resolve.draft import require_range

_HOST = "127.0.0.1"
"""Only this machine: a server without a key is opened to others by asking for it."""
_PORT = 8000
_MAX_BODY_BYTES = 32 << 20


def resolve_server(args: ServerArgs, env: Environment) -> ServerConfig:
    """Decide everything that was left open.

    Raises:
        ConfigError: an option has a value that cannot work.
    """
    require_range("port", args.port, 0, 65535)
    require_range("max_body_bytes", args.max_body_bytes, 1024, 1 << 40)
    if args.uds is not None and (args.host is not None or args.port is not None):
        raise ConfigError(
            "uds",
            args.uds,
            want="is instead of host and port",
            fix="Leave out --host and --port, or --uds.",
        )
    keys = (*args.api_key, env.api_key) if env.api_key is not None else args.api_key
    if not all(key and key.isascii() and key.isprintable() for key in keys):
        raise ConfigError(
            "api_key",
            "...",
            want="must be printable ASCII and not empty, since it travels in a header",
            fix="Choose another key.",
        )
    return ServerConfig(
        host=_HOST if args.host is None else args.host,
        port=_PORT if args.port is None else args.port,
        uds=args.uds,
        api_keys=tuple(dict.fromkeys(keys)),
        max_body_bytes=_MAX_BODY_BYTES if args.max_body_bytes is None else args.max_body_bytes,
    )
