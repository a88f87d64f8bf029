"""How a model's parameters are called in a checkpoint. Declared by models, used by loading."""

from __future__ import annotations

from dataclasses import dataclass

HF_DECODER = {
    "embed_tokens.": "model.embed_tokens.",
    "norm.": "model.norm.",
    "lm_head.": "lm_head.",
    "blocks.": "model.layers.",
    ".attention.": ".self_attn.",
    ".norms.self_attn.": ".input_layernorm.",
    ".norms.mlp.": ".post_attention_layernorm.",
}
"""Our names to those of a Hugging Face decoder, applied in order: at the start of a name, or
anywhere for keys that begin with a dot."""


@dataclass(frozen=True, slots=True)
class Shards:
    """Checkpoint matrices that one layer holds stacked, in order."""

    names: tuple[str, ...]


def shards(*names: str) -> Shards:
    """Name the matrices that are stacked into one."""
    return Shards(names)


class WeightMap:
    """Names of parameters in the checkpoint: renamed parts, and layers stacked from several.

    A keyword is a layer's name in our model, its value the layers it is stacked from.
    """

    def __init__(self, renames: dict[str, str], **merged: Shards) -> None:
        self._renames = renames
        self._merged = merged

    def checkpoint_names(self, parameter: str) -> tuple[str, ...]:
        """Return what fills ``parameter``: one name, or one per stacked matrix."""
        name = parameter
        for ours, theirs in self._renames.items():
            if ours.startswith("."):
                name = name.replace(ours, theirs)
            elif name.startswith(ours):
                name = theirs + name.removeprefix(ours)
        for layer, merged in self._merged.items():
            if f".{layer}." in name:
                return tuple(name.replace(f".{layer}.", f".{part}.") for part in merged.names)
        return (name,)
