"""Names, text and bounds of the API process."""

from __future__ import annotations

from octavo.kit.errors import ConfigError
from octavo.resolve.draft import Draft, require_choice, require_range

_LOG_LEVELS = ("debug", "info", "warning", "error")
_MAX_LOGPROBS = 1 << 16
_MAX_WAITING = 1 << 24
_LEAST_WAITING_TOKENS = 1 << 20


def the_model_answers_to_its_name(draft: Draft) -> Draft:
    """Requests name the model as the user did, unless names are given."""
    said = draft.args.served_model_name
    if not said:
        name = draft.model.name
        draft = draft.set("served_model_name", (name,))
        return draft.note("served_model_name", name, "as the model was named")
    if not all(said) or len(set(said)) != len(said):
        raise ConfigError(
            "served_model_name",
            list(said),
            want="must be different names, none of them empty",
            fix="Name each once.",
        )
    return draft.set("served_model_name", said)


def the_tokenizer_is_beside_the_weights(draft: Draft) -> Draft:
    """In the model's folder, or in the .gguf file itself."""
    return draft.choose("tokenizer", draft.model.path, "beside the weights")


def sampling_defaults_are_the_models(draft: Draft) -> Draft:
    """What its makers recommend, unless neutral defaults are asked for."""
    require_choice("generation_config", draft.args.generation_config, ("auto", "vllm"))
    if draft.args.generation_config == "vllm":
        return draft
    found = draft.facts.default_sampling
    draft = draft.set("default_sampling", found)
    if not found:
        return draft
    values = " ".join(f"{name}={value:g}" for name, value in found)
    return draft.note("generation_config", values, f"from {draft.facts.sampling_file}")


def intake_is_bounded(draft: Draft) -> Draft:
    """A queue without end only makes everyone late."""
    require_range("max_waiting_requests", draft.args.max_waiting_requests, 0, _MAX_WAITING)
    require_range("max_logprobs", draft.args.max_logprobs, 0, _MAX_LOGPROBS)
    draft = draft.choose("max_waiting_requests", 1024, "the default")
    return draft.choose("max_logprobs", 20, "the most that the OpenAI API allows")


def events_are_logged_from_info_up(draft: Draft) -> Draft:
    """A handful of lines in a process's life."""
    require_choice("log_level", draft.args.log_level, _LOG_LEVELS)
    return draft.choose("log_level", "info", "the default")


def max_waiting_tokens(draft: Draft) -> int:
    """Prompt tokens that all live requests may have: several of the longest, and never few."""
    return max(_LEAST_WAITING_TOKENS, 16 * draft.model.max_model_len)


RULES = (
    the_model_answers_to_its_name,
    the_tokenizer_is_beside_the_weights,
    sampling_defaults_are_the_models,
    intake_is_bounded,
    events_are_logged_from_info_up,
)
