"""What an own reading of a model_type's config is, and what several share."""

from __future__ import annotations

from collections.abc import Callable

from octavo.config.model import LayerConfig, ModelConfig
from octavo.kit.errors import Unsupported
from octavo.resolve.facts import MAX_CONTEXT, MAX_LAYERS
from octavo.resolve.fields import Fields

Reader = Callable[[Fields, ModelConfig], ModelConfig]
"""``READER`` of a module here: takes the generic reading and gives the model's own."""

_FULL, _SLIDING = "full_attention", "sliding_attention"


def windows_by_layer(config: Fields, num_layers: int) -> tuple[LayerConfig, ...]:
    """Layers of a model that slides on some, by ``layer_types`` or from ``max_window_layers`` on.

    Without ``use_sliding_window`` every layer sees everything.
    """
    if not config.flag("use_sliding_window", default=False) or not config.has("sliding_window"):
        return (LayerConfig(),) * num_layers
    window = LayerConfig(window=config.integer("sliding_window", 1, MAX_CONTEXT))
    kinds = config.texts("layer_types")
    if not kinds:
        first = config.integer("max_window_layers", 0, MAX_LAYERS, default=28)
        kinds = [_SLIDING if layer >= first else _FULL for layer in range(num_layers)]
    if len(kinds) != num_layers:
        raise config.error("layer_types", f"a list of {num_layers} kinds")
    if unknown := {*kinds} - {_FULL, _SLIDING}:
        raise Unsupported(
            f"{config.path}: layer_types has {', '.join(sorted(unknown))}; octavo has {_FULL} "
            f"and {_SLIDING}. Choose another model."
        )
    return tuple(window if kind == _SLIDING else LayerConfig() for kind in kinds)
