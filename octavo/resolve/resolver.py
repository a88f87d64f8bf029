"""What the user said, what the files say and what the machine has, to what will run. Pure."""

from __future__ import annotations

from functools import reduce

from octavo.config.args import EngineArgs
from octavo.config.cache import CacheConfig
from octavo.config.frontend import FrontendConfig
from octavo.config.octavo import OctavoConfig
from octavo.config.parallel import ParallelConfig
from octavo.platforms.base import PlatformFacts
from octavo.resolve.draft import Draft, Extensions
from octavo.resolve.facts import ModelFacts
from octavo.resolve.rules import frontend, memory, model, parallel, scheduler

RULES = (
    *model.RULES,
    *parallel.RULES,
    *scheduler.RULES,
    *memory.RULES,
    *model.LATE_RULES,
    *frontend.RULES,
)
"""In the order they run; each takes what the ones before it decided."""


def resolve(
    args: EngineArgs, facts: ModelFacts, platform: PlatformFacts, extensions: Extensions
) -> OctavoConfig:
    """Decide everything that was left open.

    Raises:
        ConfigError: an option has a value that cannot work.
        Unsupported: the model or device needs something that octavo does not have.
    """
    return finished(decide(args, facts, platform, extensions))


def decide(
    args: EngineArgs, facts: ModelFacts, platform: PlatformFacts, extensions: Extensions
) -> Draft:
    """Run the rules; the draft also has the memory plan and the reasons."""
    draft = Draft(
        args=args, facts=facts, platform=platform, extensions=extensions, model=facts.model
    )
    return reduce(lambda draft, rule: rule(draft), RULES, draft)


def finished(draft: Draft) -> OctavoConfig:
    """Freeze a draft that every rule has seen."""
    assert draft.memory is not None
    return OctavoConfig(
        model=draft.model,
        cache=CacheConfig(
            block_size=draft.block_size,
            num_blocks=draft.memory.num_blocks,
            dtype=draft.model.dtype,
            prefix_caching=draft.enable_prefix_caching,
        ),
        scheduler=draft.scheduler,
        parallel=ParallelConfig(
            executor=draft.executor, device=draft.platform.name, threads=draft.threads
        ),
        frontend=FrontendConfig(
            served_model_names=draft.served_model_name,
            tokenizer=draft.tokenizer,
            chat_template=draft.args.chat_template,
            max_logprobs=draft.max_logprobs,
            max_waiting_requests=draft.max_waiting_requests,
            max_waiting_tokens=frontend.max_waiting_tokens(draft),
            default_sampling=draft.default_sampling,
            seed=draft.seed,
        ),
        attention_backend=draft.attention_backend,
        numerics=draft.numerics,
        log_level=draft.log_level,
        notes=tuple(str(note) for note in draft.notes),
    )
