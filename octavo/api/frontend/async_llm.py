"""AsyncLLM: add, stream, abort. One task reads the engine; every request has its stream."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from octavo.api.frontend.admission import Admission
from octavo.api.frontend.engine_client import EngineClient
from octavo.api.frontend.fan_out import LiveRequest
from octavo.api.frontend.input_processor import InputProcessor
from octavo.api.frontend.metrics import Metrics
from octavo.api.frontend.output_processor import OutputProcessor
from octavo.api.frontend.params import SamplingParams
from octavo.api.frontend.prompts import Prompt
from octavo.api.frontend.stream import RequestStream
from octavo.api.text.chat_template import ChatTemplates
from octavo.api.text.loading import load_fitting_tokenizer
from octavo.api.text.threads import TextThreads
from octavo.api.text.tokenizer import Tokenizer
from octavo.config.octavo import OctavoConfig
from octavo.contracts.output import EngineDead, EngineOutputs, EngineReady
from octavo.kit.errors import EngineDied, OctavoError, OperatorError, Overloaded, RequestRefused
from octavo.transport.base import FrontendEnd

_log = logging.getLogger(__name__)

Json = Any  # Any: JSON of a request


class AsyncLLM:
    """The model, as the API process sees it. Used from one event loop.

    Invariant: a request that ``add`` accepted ends with a reason or with an error.
    """

    def __init__(
        self, config: OctavoConfig, channel: FrontendEnd, *, tokenizer: Tokenizer | None = None
    ) -> None:
        self.config = config
        self.tokenizer = tokenizer or load_fitting_tokenizer(config)
        self.metrics = Metrics(config.frontend.served_model_names[0])
        self.ready: EngineReady | None = None
        self.dead_reason: str | None = None
        """Why nothing can be served any more."""
        self._threads = TextThreads()
        self._client = EngineClient(channel)
        self._inputs = InputProcessor(config, self.tokenizer, self._threads)
        self._outputs = OutputProcessor(self.tokenizer, self.metrics)
        self._admission = Admission(
            max_requests=config.scheduler.max_num_seqs + config.frontend.max_waiting_requests,
            max_tokens=config.frontend.max_waiting_tokens,
        )
        self._templates = ChatTemplates(config.frontend.chat_template, self.tokenizer)
        self._started: asyncio.Future[EngineReady] | None = None
        self._reader: asyncio.Task[None] | None = None

    async def start(self) -> EngineReady:
        """Read the engine from now on, and wait until it serves.

        Raises:
            OperatorError: the engine could not start, and the operator can mend it.
            EngineDied: the engine ended for another reason.
        """
        if self._started is None:
            self._started = asyncio.get_running_loop().create_future()
            self._reader = asyncio.create_task(self._read_engine(), name="octavo-frontend")
        return await asyncio.shield(self._started)

    @property
    def has_chat(self) -> bool:
        """There is a chat template, so messages can be rendered."""
        return self._templates.has_default

    @property
    def is_ready(self) -> bool:
        """Requests are taken."""
        return self.ready is not None and self.is_alive

    @property
    def is_alive(self) -> bool:
        """The engine has not ended."""
        return self.dead_reason is None

    @property
    def num_live(self) -> int:
        """Answers that are not finished."""
        return self._outputs.num_live

    async def add(
        self,
        prompt: Prompt,
        params: SamplingParams,
        *,
        request_id: str,
        priority: int = 0,
        cache_salt: str = "",
    ) -> RequestStream:
        """Start a request. Everything that can be refused is refused here, before any output.

        Raises:
            RequestRefused: the request is out of bounds, or the server is full.
            EngineDied: there is no engine to run it.
        """
        arrival_time = time.monotonic()
        self._raise_unless_ready()
        self._inputs.check(params, request_id=request_id, priority=priority, cache_salt=cache_salt)
        try:
            ticket = self._admission.enter(params.n)
            try:
                prepared = await self._inputs.prepare(prompt, params)
                ticket.charge(len(prepared.prompt_token_ids) * params.n)
                self._raise_unless_ready()
            except BaseException:
                ticket.close()
                raise
        except Overloaded:
            self.metrics.refused()
            raise
        live = self._outputs.open(request_id, params, prepared, ticket, arrival_time)
        self.metrics.admitted(live)
        await self._send(live, priority=priority, cache_salt=cache_salt)
        return RequestStream(live, self._abort_live)

    async def abort(self, request_id: str) -> None:
        """End every request of that id; its stream gives what came so far, and ends."""
        for live in self._outputs.find(request_id):
            await self._abort_live(live)

    async def utility(
        self, method: str, args: Sequence[int | str | bool] = ()
    ) -> int | str | bool | None:
        """Call a control method of the engine.

        Raises:
            RequestRefused: the engine does not have it, or does not take ``args``.
            EngineDied: there is no engine to answer.
        """
        self._raise_unless_ready()
        return await self._client.call(method, list(args))

    async def render_chat(
        self,
        messages: list[dict[str, Json]],
        *,
        tools: list[dict[str, Json]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        chat_template: str | None = None,
        template_kwargs: Mapping[str, Json] | None = None,
    ) -> str:
        """Return the prompt text of a chat; encode it without adding special tokens.

        Raises:
            RequestRefused: the model has no template, or the template refuses the messages.
        """
        if continue_final_message and add_generation_prompt:
            raise RequestRefused(
                "continue_final_message=True: needs add_generation_prompt=False.",
                param="continue_final_message",
            )

        def render() -> str:
            template = self._templates.find(chat_template, has_tools=bool(tools))
            if continue_final_message:
                return template.render_continued(
                    messages, tools=tools, template_kwargs=template_kwargs
                )
            return template.render(
                messages,
                tools=tools,
                add_generation_prompt=add_generation_prompt,
                template_kwargs=template_kwargs,
            )

        return await self._threads.run(render)

    async def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Token ids of ``text``, made off the event loop.

        Raises:
            RequestRefused: the text cannot fit into the model's context, or is no Unicode.
        """
        return await self._inputs.encode(
            text, add_special_tokens=add_special_tokens, param="prompt"
        )

    async def decode(self, token_ids: Sequence[int]) -> str:
        """Text of ``token_ids``, special tokens included.

        Raises:
            RequestRefused: an id is outside the vocabulary.
        """
        self._inputs.params_check.check_token_ids("tokens", token_ids)
        return await self._threads.run(lambda: self.tokenizer.decode(token_ids))

    def engine_died(self, reason: str) -> None:
        """End every request: whoever watches the engine process saw it go. Idempotent."""
        self._die(EngineDied(reason))

    async def close(self) -> None:
        """End what runs, stop reading, release the channel. Idempotent."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        self._die(EngineDied("the server is shutting down"))
        self._client.close()
        self._threads.close()

    async def _send(self, live: LiveRequest, *, priority: int, cache_salt: str) -> None:
        try:
            for request in live.engine_requests(priority=priority, cache_salt=cache_salt):
                await self._client.add(request)
        except BaseException:
            await self._abort_live(live)
            raise

    async def _abort_live(self, live: LiveRequest) -> None:
        engine_ids = self._outputs.abort(live)
        if self.is_alive:
            await self._abort_in_engine(engine_ids)

    async def _abort_in_engine(self, engine_ids: list[str]) -> None:
        try:
            await self._client.abort(engine_ids)
        except EngineDied as error:
            self._die(error)

    async def _read_engine(self) -> None:
        try:
            while self.is_alive:
                message = await self._client.receive()
                match message:
                    case EngineOutputs():
                        await self._deliver(message)
                    case EngineReady():
                        self._serve(message)
                    case EngineDead():
                        self._die(_error_of(message))
                    case _:
                        assert_never(message)
        except EngineDied as error:
            self._die(error)
        except Exception as error:  # noqa: BLE001 - guard: nothing ends without this task
            _log.exception("the frontend broke while it read the engine")
            self._die(EngineDied(f"the frontend broke: {error!r}"))

    async def _deliver(self, outputs: EngineOutputs) -> None:
        self.metrics.step(outputs)
        to_abort = self._outputs.deliver(outputs)
        if to_abort:
            await self._abort_in_engine(to_abort)

    def _serve(self, ready: EngineReady) -> None:
        if self.ready is not None:
            self._outputs.fail_all(EngineDied("the engine ended and was started again"))
            self._client.fail_calls(EngineDied("the engine ended before it answered"))
        self.ready = ready
        self._inputs.max_model_len = ready.max_model_len
        if self._started is not None and not self._started.done():
            self._started.set_result(ready)

    def _die(self, error: OctavoError) -> None:
        if not self.is_alive:
            return
        self.dead_reason = str(error)
        died = error if isinstance(error, EngineDied) else EngineDied(str(error))
        self._outputs.fail_all(died)
        self._client.fail_calls(died)
        if self._started is not None and not self._started.done():
            self._started.set_exception(error)
            self._started.exception()  # seen: nobody may be waiting

    def _raise_unless_ready(self) -> None:
        if self.dead_reason is not None:
            raise EngineDied(self.dead_reason)
        if self.ready is None:
            raise EngineDied("the engine has not started yet")


def _error_of(dead: EngineDead) -> OctavoError:
    if dead.operator:
        return OperatorError(dead.error)
    return EngineDied(f"{dead.error} (at {dead.where})")
