"""What the model computes in, and how long a text may be."""

from __future__ import annotations

from dataclasses import replace

from octavo.config.model import LayerConfig
from octavo.kit.errors import ConfigError, Unsupported
from octavo.resolve.draft import Draft, require_choice, require_range
from octavo.resolve.facts import DTYPE_BYTES, MAX_CONTEXT


def the_weights_are_of_a_known_format(draft: Draft) -> Draft:
    """A format, and a quantization where there is one, that device code can load."""
    model, extensions = draft.model, draft.extensions
    if model.weight_format not in extensions.weight_formats:
        raise Unsupported(
            f"{model.path}: weights are in format {model.weight_format!r}; octavo loads "
            f"{', '.join(extensions.weight_formats) or 'none'}. Convert them."
        )
    if model.quantization is not None and model.quantization not in extensions.quantizations:
        raise Unsupported(
            f"{model.path}: is quantized with {model.quantization!r}; octavo has "
            f"{', '.join(extensions.quantizations) or 'none'}. Choose plain weights or GGUF."
        )
    reason = "what the files are" if draft.args.load_format in (None, "auto") else "as asked"
    return draft.note("load_format", model.weight_format, reason)


def the_platform_decides_the_dtype(draft: Draft) -> Draft:
    """Accelerators keep the checkpoint's dtype; a CPU computes in float32."""
    platform, stored = draft.platform, draft.facts.model.dtype
    said = draft.args.dtype
    require_choice("dtype", said, ("auto", *DTYPE_BYTES))
    if said not in (None, "auto"):
        require_choice("dtype", said, platform.dtypes)
        return draft.set("model", replace(draft.model, dtype=said))
    if platform.prefers_checkpoint_dtype and stored in platform.dtypes:
        dtype, reason = stored, "the checkpoint's"
    elif platform.prefers_checkpoint_dtype:
        dtype = platform.dtypes[0]
        reason = f"since {platform.device_name} has no {stored}"
    else:
        dtype = platform.dtypes[0]
        reason = f"which a {platform.name} computes fastest and most exactly"
    draft = draft.set("model", replace(draft.model, dtype=dtype))
    return draft.note("dtype", dtype, reason)


def the_context_is_the_models(draft: Draft) -> Draft:
    """Positions beyond what the model was made for give no sensible text."""
    said, longest = draft.args.max_model_len, draft.facts.model.max_model_len
    require_range("max_model_len", said, 2, MAX_CONTEXT)  # a token of a prompt, one of an answer
    if said is None:
        return draft.note("max_model_len", longest, "the model's longest context")
    if said > longest:
        raise ConfigError(
            "max_model_len",
            said,
            want=f"must be at most {longest}, the longest context of {draft.model.name}",
            fix=f"Use --max-model-len {longest}.",
        )
    return draft.set("model", replace(draft.model, max_model_len=said))


def windows_wider_than_the_context_do_nothing(draft: Draft) -> Draft:
    """A layer that sees as much as there can be is a full layer."""
    limit = draft.model.max_model_len
    layers = tuple(
        LayerConfig(kind=layer.kind)
        if layer.window is not None and layer.window >= limit
        else layer
        for layer in draft.model.layers
    )
    if layers == draft.model.layers:
        return draft
    draft = draft.set("model", replace(draft.model, layers=layers))
    return draft.note("sliding_window", "off", f"since it holds the whole context of {limit}")


def long_contexts_take_the_long_factors(draft: Draft) -> Draft:
    """LongRoPE has two sets of divisors; the longest text of this start decides for all."""
    if draft.facts.longrope is None:
        return draft
    short, long = draft.facts.longrope
    trained = draft.model.rope.original_max_position
    is_long = draft.model.max_model_len > trained
    rope = replace(draft.model.rope, inverse_factors=long if is_long else short)
    draft = draft.set("model", replace(draft.model, rope=rope))
    word = "more than" if is_long else "at most"
    return draft.note(
        "rope", "long factors" if is_long else "short factors", f"for {word} {trained} tokens"
    )


def ends_of_text_come_from_every_file(draft: Draft) -> Draft:
    """Generation config, config and tokenizer may each name another end."""
    ends = draft.facts.model.eos_token_ids
    if not ends:
        return draft.note("eos_token_ids", "none", "so that answers end by length or stop string")
    return draft.note("eos_token_ids", list(ends), f"from {draft.facts.eos_sources}")


def seeds_start_at_zero(draft: Draft) -> Draft:
    """So that two starts draw the same seeds for requests without one."""
    require_range("seed", draft.args.seed, 0, (1 << 63) - 1)
    return draft.choose("seed", 0, "the default")


RULES = (
    the_weights_are_of_a_known_format,
    the_platform_decides_the_dtype,
    the_context_is_the_models,
    ends_of_text_come_from_every_file,
    seeds_start_at_zero,
)
LATE_RULES = (
    windows_wider_than_the_context_do_nothing,
    long_contexts_take_the_long_factors,
)
"""For when memory has had its say about the context."""
