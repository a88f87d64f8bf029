"""The API process: address, keys, bounds, text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Where the HTTP server listens and what it lets in."""

    host: str
    port: int
    uds: str | None
    """Path of a unix socket to listen on instead of host and port."""
    api_keys: tuple[str, ...]
    """Accepted bearer keys; empty lets everyone in."""
    max_body_bytes: int
    """Largest request body. [bytes]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontendConfig:
    """Text and admission."""

    served_model_names: tuple[str, ...]
    """Names that requests may use; the first is the one that answers carry."""
    tokenizer: str
    """Folder with tokenizer files, or a .gguf file that holds them."""
    chat_template: str | None
    """Jinja text, or None for the model's own."""
    max_logprobs: int
    """Most alternatives a request may ask for."""
    max_waiting_requests: int
    """Requests accepted beyond the running ones; more are refused with 429. [requests]"""
    max_waiting_tokens: int
    """Prompt tokens of all live requests; more are refused with 429. [tokens]"""
    default_sampling: tuple[tuple[str, float], ...]
    """Sampling defaults of the model (its generation config), name and value."""
    seed: int
    """Base of the seeds drawn for requests without one."""
