"""Rotary encodings as configs write them, to RopeConfig.

Newer configs have ``rope_parameters``; older ones ``rope_theta`` and ``rope_scaling``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from octavo.config.model import RopeConfig
from octavo.kit.errors import Unsupported
from octavo.resolve.facts import MAX_CONTEXT
from octavo.resolve.fields import Fields

KINDS = ("default", "linear", "dynamic", "yarn", "longrope", "llama3")
_OTHER_NAMES = {"none": "default", "su": "longrope"}
_NESTED = ("full_attention", "sliding_attention")


@dataclass(frozen=True, slots=True)
class Rope:
    """What a config says about positions."""

    config: RopeConfig
    longest: int
    """Positions that the encoding is made for. [tokens]"""
    longrope: tuple[tuple[float, ...], tuple[float, ...]] | None = None


def read_rope(config: Fields, head_size: int, max_position: int) -> Rope:
    """Read either form.

    Raises:
        CheckpointError: a field is missing, of the wrong type or out of range.
        Unsupported: the kind of scaling is not known.
    """
    new, old = config.part("rope_parameters"), config.part("rope_scaling")
    scaling = new or old or Fields(config.path, {}, "rope_scaling.")
    if any(name in scaling.values for name in _NESTED):
        raise Unsupported(
            f"{config.path}: has rope_parameters per kind of layer; octavo has one per model. "
            "Choose another model."
        )
    place = scaling if scaling.has("rope_theta") else config
    theta = place.number("rope_theta", 1, 1e15, default=10_000.0)
    place = scaling if scaling.has("partial_rotary_factor") else config
    share = place.number("partial_rotary_factor", 0.01, 1, default=1.0)
    rotary_size = int(head_size * share)
    if rotary_size % 2 or not rotary_size:
        raise place.error("partial_rotary_factor", f"an even part of head size {head_size}")
    plain = RopeConfig(theta=theta, rotary_size=rotary_size)
    name = scaling.text("rope_type", default=scaling.text("type", default="default"))
    kind = _OTHER_NAMES.get(name, name)
    if kind not in KINDS:
        raise Unsupported(
            f"{config.path}: {scaling.prefix}rope_type is {name!r}; octavo has "
            f"{', '.join(KINDS)}. Choose another model."
        )
    if kind == "default":
        return Rope(plain, max_position)
    return _scaled(plain, kind, scaling, config, max_position)


def _scaled(
    plain: RopeConfig, kind: str, scaling: Fields, config: Fields, max_position: int
) -> Rope:
    place = scaling if scaling.has("original_max_position_embeddings") else config
    trained = place.integer(
        "original_max_position_embeddings", 1, MAX_CONTEXT, default=max_position
    )
    if kind == "longrope":
        return _longrope(plain, scaling, trained, max_position)
    factor = scaling.number("factor", 1, 1e6)
    trained = max_position if kind == "dynamic" else trained
    rope = replace(plain, kind=kind, factor=factor, original_max_position=trained)
    match kind:
        case "llama3":
            low = scaling.number("low_freq_factor", 1e-6, 1e6)
            high = scaling.number("high_freq_factor", 1e-6, 1e6)
            if high <= low:
                raise scaling.error("high_freq_factor", f"more than low_freq_factor ({low})")
            rope = replace(rope, low_freq_factor=low, high_freq_factor=high)
            return Rope(rope, max_position)
        case "yarn":
            return Rope(_yarn(rope, scaling), max(max_position, int(trained * factor)))
        case _:
            return Rope(rope, int(max_position * factor))


def _yarn(rope: RopeConfig, scaling: Fields) -> RopeConfig:
    if not scaling.flag("truncate", default=True):
        raise scaling.error("truncate", "true, since octavo blends at whole dimensions")
    return replace(
        rope,
        attention_factor=_yarn_attention_factor(rope.factor, scaling),
        beta_fast=scaling.number("beta_fast", 1e-6, 1e6, default=32.0),
        beta_slow=scaling.number("beta_slow", 1e-6, 1e6, default=1.0),
    )


def _yarn_attention_factor(factor: float, scaling: Fields) -> float | None:
    """The factor itself, or from two weights of its logarithm; None leaves the usual one."""
    if scaling.has("attention_factor"):
        return scaling.number("attention_factor", 1e-6, 1e6)
    if not (scaling.has("mscale") and scaling.has("mscale_all_dim")):
        return None
    log = 0.1 * math.log(factor)
    above = scaling.number("mscale", 1e-6, 1e6) * log + 1
    return above / (scaling.number("mscale_all_dim", 1e-6, 1e6) * log + 1)


def _longrope(plain: RopeConfig, scaling: Fields, trained: int, max_position: int) -> Rope:
    pairs = plain.rotary_size // 2
    factor = scaling.number("factor", 1, 1e6, default=max(1.0, max_position / trained))
    attention_factor = None
    if scaling.has("attention_factor"):
        attention_factor = scaling.number("attention_factor", 1e-6, 1e6)
    rope = replace(
        plain,
        kind="longrope",
        factor=factor,
        original_max_position=trained,
        attention_factor=attention_factor,
    )
    factors = (scaling.numbers("short_factor", pairs), scaling.numbers("long_factor", pairs))
    return Rope(rope, max_position, factors)
