"""A YAML file of options; apart from ``cli.py``, so that only ``--config`` loads a YAML library."""

from __future__ import annotations

from pathlib import Path

import yaml

from octavo.kit.errors import ConfigError

_MAX_BYTES = 1 << 20


def read_yaml(path: Path) -> dict[str, object]:
    """Read a mapping of option names to values.

    Raises:
        ConfigError: the file is missing, too large, no YAML or no mapping of texts.
    """
    fix = "Give a YAML file with lines such as 'max-model-len: 4096'."
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ConfigError(
                "config", str(path), want=f"must be under {_MAX_BYTES} bytes", fix=fix
            )
        value = yaml.safe_load(data)
        twice = _first_twice(yaml.compose(data, Loader=yaml.SafeLoader))
    except OSError as error:
        raise ConfigError(
            "config", str(path), want=f"{error.strerror or error}", fix=fix
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError("config", str(path), want=f"is no YAML ({reason:.200})", fix=fix) from (
            error
        )
    if twice is not None:
        raise ConfigError(
            "config",
            str(path),
            want=f"says {twice.value} twice, again in line {twice.start_mark.line + 1}",
            fix="Leave one of them.",
        )
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ConfigError("config", str(path), want="must map option names to values", fix=fix)
    return value


def _first_twice(document: yaml.Node | None) -> yaml.ScalarNode | None:
    """The first key that names an option which an earlier key has named."""
    names = set[str]()
    for key, _ in document.value if isinstance(document, yaml.MappingNode) else ():
        if isinstance(key, yaml.ScalarNode):
            name = key.value.lstrip("-").replace("-", "_")
            if name in names:
                return key
            names.add(name)
    return None
