"""What the user may say: all optional, no logic.

Flags, help and reference pages are made from these fields and their docstrings
(``config/cli.py``). A field called ``max_model_len`` is the flag ``--max-model-len``.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineArgs:
    """The model and how it runs."""

    model: str | None = None
    """Folder, .gguf file or hub id. The demo model where nothing is given."""

    tokenizer: str | None = None
    """Folder or .gguf file with the tokenizer, where it is not beside the model."""

    revision: str | None = None
    """Branch, tag or commit of a hub id."""

    download_dir: str | None = None
    """Folder for files fetched from the hub."""

    served_model_name: tuple[str, ...] = field(default=(), metadata={"nargs": "+"})
    """Names that requests may use for the model; the first is the one that answers carry."""

    max_model_len: int | None = None
    """Longest prompt plus answer. [tokens]"""

    dtype: str | None = None
    """auto, float32, bfloat16 or float16: weights and activations."""

    seed: int | None = None
    """Base of the seeds drawn for requests that give none."""

    load_format: str | None = None
    """auto, safetensors, gguf or dummy (random weights)."""

    device: str | None = None
    """auto, or the name of a platform: cpu, cuda."""

    executor: str | None = None
    """uniproc (worker inside the engine process) or multiproc (a process per worker)."""

    threads: int | None = None
    """Threads a CPU worker computes with."""

    block_size: int | None = None
    """Tokens in one block of the KV cache. [tokens]"""

    enable_prefix_caching: bool | None = None
    """Reuse KV blocks of equal prefixes."""

    kv_cache_memory_bytes: int | None = None
    """Memory for the KV cache; suffixes K, M, G are understood. [bytes]"""

    gpu_memory_utilization: float | None = None
    """Part of the device's memory that octavo may use; on CPU, part of the free memory."""

    max_num_seqs: int | None = None
    """Most requests one step runs. [requests]"""

    max_num_batched_tokens: int | None = None
    """Most tokens one step computes. [tokens]"""

    scheduling_policy: str | None = None
    """fcfs, or priority: a waiting request may displace a running one of lower priority."""

    async_scheduling: bool | None = None
    """Schedule the next step while the device computes this one."""

    attention_backend: str | None = None
    """Name of an attention backend; the platform's preference where nothing is given."""

    numerics: str | None = None
    """exact refuses operations whose bits depend on the batch; fast admits them."""

    generation_config: str | None = None
    """auto (sampling defaults of the model), or vllm (neutral defaults)."""

    chat_template: str | None = None
    """File with a Jinja chat template, or the template itself."""

    max_logprobs: int | None = None
    """Most alternatives per token a request may ask for."""

    max_waiting_requests: int | None = None
    """Requests accepted beyond the running ones before 429. [requests]"""

    log_level: str | None = None
    """debug, info, warning or error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerArgs:
    """The HTTP server."""

    host: str | None = None
    """Address to listen on."""

    port: int | None = None
    """Port to listen on; 0 takes a free one."""

    uds: str | None = None
    """Path of a unix socket to listen on instead of host and port."""

    api_key: tuple[str, ...] = ()
    """Bearer key that requests must carry; may be given several times. Also OCTAVO_API_KEY."""

    max_body_bytes: int | None = None
    """Largest request body. [bytes]"""
