"""What routes need of the frontend (``AsyncLLM`` has it), and how they get it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Protocol

from fastapi import Depends, Request

from octavo.api.frontend.outputs import RequestOutput
from octavo.api.frontend.params import SamplingParams
from octavo.api.frontend.prompts import Prompt
from octavo.api.http.errors import NotReady, OtherOrigin
from octavo.config.octavo import OctavoConfig
from octavo.contracts.output import EngineReady
from octavo.kit.errors import NotFound

ChatMessage = dict[str, object]
"""One message as a chat template sees it."""


class Stream(Protocol):
    """Outputs of one prompt."""

    def __aiter__(self) -> AsyncIterator[RequestOutput]: ...

    async def final(self) -> RequestOutput: ...

    async def aclose(self) -> None:
        """End the request where it has not ended; idempotent."""


class Metrics(Protocol):
    """The page behind ``/metrics``."""

    def render(self) -> bytes: ...


class Service(Protocol):
    """A model that is served."""

    @property
    def config(self) -> OctavoConfig: ...

    @property
    def ready(self) -> EngineReady | None: ...

    @property
    def is_ready(self) -> bool: ...

    @property
    def is_alive(self) -> bool: ...

    @property
    def dead_reason(self) -> str | None: ...

    @property
    def metrics(self) -> Metrics: ...

    async def add(
        self,
        prompt: Prompt,
        params: SamplingParams,
        *,
        request_id: str,
        priority: int = 0,
        cache_salt: str = "",
    ) -> Stream:
        """Admit one prompt; raises ``RequestRefused`` before any output."""

    async def utility(
        self, method: str, args: Sequence[int | str | bool] = ()
    ) -> int | str | bool | None: ...

    async def render_chat(
        self,
        messages: list[ChatMessage],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        template_kwargs: dict[str, object] | None = None,
    ) -> str: ...

    async def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...

    async def decode(self, token_ids: Sequence[int]) -> str: ...


def served(request: Request) -> Service:
    """The service of this application."""
    service: Service = request.app.state.service
    return service


def ready(request: Request) -> Service:
    """The service, once it can take requests.

    Raises:
        NotReady: the model is loading, or the engine has ended.
    """
    service = served(request)
    if not service.is_alive:
        raise NotReady(f"the engine has ended: {service.dead_reason}", retry_after_s=10)
    if not service.is_ready:
        raise NotReady(
            "the model is loading; /ready answers 200 when it is served", retry_after_s=2
        )
    return service


def same_origin(request: Request) -> None:
    """Keep out what a browser sends for any page without asking first.

    Routes with a body need no such guard: browsers ask before they send JSON elsewhere.

    Raises:
        OtherOrigin: the request comes from a page that this server has not served.
    """
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        raise OtherOrigin(origin)


ServiceDep = Annotated[Service, Depends(served)]
ReadyDep = Annotated[Service, Depends(ready)]


def served_name(service: Service, asked: str | None) -> str:
    """The name that the answer carries.

    Raises:
        NotFound: no served model is called ``asked``.
    """
    names = service.config.frontend.served_model_names
    if asked is None or asked in names:
        return asked or names[0]
    shown = asked if len(asked) <= 100 else asked[:100] + "..."
    raise NotFound(
        f"model {shown!r} is not served here. Served: {', '.join(map(repr, names))}.",
        param="model",
        code="model_not_found",
    )
