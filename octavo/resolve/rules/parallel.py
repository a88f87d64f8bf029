"""Where the model runs, and with what."""

from __future__ import annotations

from octavo.kit.errors import ConfigError, Unsupported
from octavo.resolve.draft import Draft, require_choice, require_range

_MAX_THREADS = 4096


def the_device_is_noted(draft: Draft) -> Draft:
    """The platform was chosen before the rules; here it is only explained."""
    if draft.args.device not in (None, "auto"):
        return draft
    platform = draft.platform
    return draft.note("device", platform.name, f"the first that is usable: {platform.device_name}")


def the_worker_sits_in_the_engine_process(draft: Draft) -> Draft:
    """One worker needs no second process."""
    require_choice("executor", draft.args.executor, draft.extensions.executors)
    return draft.choose("executor", "uniproc", "since one worker needs no process of its own")


def a_worker_uses_every_core_it_may(draft: Draft) -> Draft:
    """Affinity and control group say which those are."""
    require_range("threads", draft.args.threads, 1, _MAX_THREADS)
    cores = draft.platform.threads
    return draft.choose("threads", cores, "the cores that this process may use")


def the_platform_prefers_an_attention_backend(draft: Draft) -> Draft:
    """The first of its list that is installed; the device checks it against the layers."""
    installed = draft.extensions.attention_backends
    require_choice("attention_backend", draft.args.attention_backend, installed)
    usable = usable_backends(draft.platform.attention_backends, installed)
    if draft.args.attention_backend is None and not usable:
        raise Unsupported(
            f"device={draft.platform.name!r}: octavo has no attention backend for it (it has "
            f"{', '.join(installed) or 'none'}). Use --device cpu."
        )
    return draft.choose(
        "attention_backend",
        next(iter(usable), ""),
        f"the first of {', '.join(draft.platform.attention_backends)} that is installed",
    )


def exact_numerics_need_a_platform_that_has_them(draft: Draft) -> Draft:
    """Bits that do not depend on the batch are promised only where every op keeps them."""
    said, platform = draft.args.numerics, draft.platform
    require_choice("numerics", said, ("exact", "fast"))
    if platform.has_exact_path:
        return draft.choose("numerics", "exact", f"since every op on {platform.name} is")
    if said == "exact":
        raise ConfigError(
            "numerics",
            said,
            want=f"is not to be had on {platform.name}, whose matrix products depend on the batch",
            fix="Use --numerics fast.",
        )
    return draft.choose("numerics", "fast", f"since {platform.name} has no exact path")


def usable_backends(preferred: tuple[str, ...], installed: tuple[str, ...]) -> list[str]:
    """Return those of ``preferred`` that are installed, in that order."""
    return [name for name in preferred if name in installed]


RULES = (
    the_device_is_noted,
    the_worker_sits_in_the_engine_process,
    a_worker_uses_every_core_it_may,
    the_platform_prefers_an_attention_backend,
    exact_numerics_need_a_platform_that_has_them,
)
