from __future__ import annotations

import httpx
import pytest

from octavo.api.frontend.params import OutputKind
from octavo.kit.errors import EngineDied, Overloaded, PromptTooLong, RequestFailed
from octavo.testing.fake_llm import FakeLLM
from tests.unit.api.http.reading import chunks, events, eventually, refusal

PATH = "/v1/chat/completions"
TURNS = [{"role": "user", "content": "Capital?"}]
CHAT = {"messages": TURNS}


def post(client: httpx.Client, **fields: object) -> httpx.Response:
    return client.post(PATH, json=CHAT | fields)


def test_a_whole_answer_has_openais_shape(client: httpx.Client, llm: FakeLLM) -> None:
    answer = post(client).json()

    assert answer["object"] == "chat.completion"
    assert answer["id"].startswith("chatcmpl-")
    assert answer["model"] == "fake"
    assert answer["system_fingerprint"].startswith("fp_")
    [choice] = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": llm.answer, "refusal": None}
    assert (choice["index"], choice["finish_reason"], choice["logprobs"]) == (0, "stop", None)
    num_prompt, num_answer = len(llm.prompts[0]), len(llm.answer)
    assert answer["usage"] == {
        "prompt_tokens": num_prompt,
        "completion_tokens": num_answer,
        "total_tokens": num_prompt + num_answer,
        "prompt_tokens_details": {"cached_tokens": 2},
    }


def test_a_stream_is_role_then_texts_then_end_then_mark(client: httpx.Client, llm: FakeLLM) -> None:
    answer = post(client, stream=True)
    first, *middle, last = chunks(answer)

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert first["object"] == "chat.completion.chunk"
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(c["choices"][0]["delta"]["content"] for c in middle) == llm.answer
    assert all(c["choices"][0]["finish_reason"] is None for c in [first, *middle])
    assert last["choices"][0]["delta"] == {}
    assert last["choices"][0]["finish_reason"] == "stop"
    assert len({c["id"] for c in [first, *middle, last]}) == 1


def test_usage_is_one_last_event_with_no_choices_where_it_was_asked_for(
    client: httpx.Client,
) -> None:
    data = chunks(post(client, stream=True, stream_options={"include_usage": True}))

    assert [bool(c["usage"]) for c in data] == [False] * (len(data) - 1) + [True]
    assert data[-1]["choices"] == []
    assert data[-1]["usage"]["completion_tokens"] == len(data) - 3


@pytest.mark.parametrize(
    "options", [{}, {"stream_options": None}, {"stream_options": {"include_usage": False}}]
)
def test_no_event_has_a_usage_where_none_was_asked_for(
    client: httpx.Client, options: dict[str, object]
) -> None:
    data = chunks(post(client, stream=True, **options))

    assert all("usage" not in chunk and chunk["choices"] for chunk in data)


def test_usage_can_come_with_every_event(client: httpx.Client, llm: FakeLLM) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    data = chunks(post(client, stream=True, stream_options=options))

    counts = [chunk["usage"]["completion_tokens"] for chunk in data]
    assert counts == sorted(counts)
    assert counts[-1] == len(llm.answer)


def test_all_of_several_answers_are_counted(client: httpx.Client, llm: FakeLLM) -> None:
    answer = post(client, n=3).json()

    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert answer["usage"]["completion_tokens"] == 3 * len(llm.answer)


def test_each_of_several_streamed_answers_has_one_role_and_one_end(client: httpx.Client) -> None:
    choices = [chunk["choices"][0] for chunk in chunks(post(client, n=3, stream=True))]

    for index in range(3):
        own = [choice for choice in choices if choice["index"] == index]
        assert [choice["delta"].get("role") for choice in own].count("assistant") == 1
        assert own[0]["delta"]["role"] == "assistant"
        assert [choice["finish_reason"] for choice in own] == [None] * (len(own) - 1) + ["stop"]


def test_logprobs_have_openais_shape_and_are_the_same_streamed(
    client: httpx.Client, llm: FakeLLM
) -> None:
    llm.answer = "né"
    whole = post(client, logprobs=True, top_logprobs=3).json()["choices"][0]["logprobs"]
    streamed = chunks(post(client, logprobs=True, top_logprobs=3, stream=True))

    assert whole["refusal"] is None
    first, second = whole["content"]
    assert (first["token"], first["bytes"]) == ("n", [110])
    assert second["bytes"] == [0xC3, 0xA9]
    best = [item["logprob"] for item in first["top_logprobs"]]
    assert len(best) == 3
    assert best == sorted(best, reverse=True)
    assert first["logprob"] == best[1]
    pieces = [chunk["choices"][0]["logprobs"] for chunk in streamed]
    joined = [item for piece in pieces if piece for item in piece["content"]]
    assert joined == whole["content"]


def test_logprobs_alone_have_no_alternatives(client: httpx.Client) -> None:
    content = post(client, logprobs=True).json()["choices"][0]["logprobs"]["content"]

    assert all(item["top_logprobs"] == [] for item in content)


def test_a_token_outside_the_asked_alternatives_is_not_among_them(client: httpx.Client) -> None:
    fields = {"logprobs": True, "top_logprobs": 1}
    content = post(client, **fields).json()["choices"][0]["logprobs"]["content"]

    assert [item["token"] for item in content[0]["top_logprobs"]] == ["\u2461"]
    assert content[0]["token"] == "T"


def test_prompt_logprobs_have_a_null_first(client: httpx.Client, llm: FakeLLM) -> None:
    positions = post(client, prompt_logprobs=1).json()["prompt_logprobs"]

    assert len(positions) == len(llm.prompts[0])
    assert positions[0] is None
    assert set(next(iter(positions[1].values()))) == {"logprob", "rank", "decoded_token"}


def test_every_sampling_field_reaches_the_model(client: httpx.Client, llm: FakeLLM) -> None:
    fields = {
        "n": 2,
        "max_completion_tokens": 7,
        "max_tokens": 99,
        "min_tokens": 3,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.2,
        "frequency_penalty": -0.3,
        "logit_bias": {"42": -100, "7": 1.5},
        "bad_words": ["no"],
        "allowed_token_ids": [1, 2],
        "stop": "END",
        "stop_token_ids": [9],
        "include_stop_str_in_output": True,
        "ignore_eos": True,
        "skip_special_tokens": False,
        "seed": 12,
        "truncate_prompt_tokens": 5,
        "logprobs": True,
        "top_logprobs": 4,
    }
    assert post(client, **fields).status_code == 200

    [params] = llm.params
    assert (params.n, params.max_tokens, params.min_tokens) == (2, 7, 3)
    assert (params.temperature, params.top_p, params.top_k, params.min_p) == (0.5, 0.9, 40, 0.1)
    assert params.repetition_penalty == 1.1
    assert (params.presence_penalty, params.frequency_penalty) == (0.2, -0.3)
    assert params.logit_bias == {42: -100.0, 7: 1.5}
    assert params.bad_words == ("no",)
    assert params.allowed_token_ids == (1, 2)
    assert params.stop == ("END",)
    assert params.stop_token_ids == (9,)
    assert params.include_stop_str_in_output
    assert params.ignore_eos
    assert not params.skip_special_tokens
    assert (params.seed, params.truncate_prompt_tokens, params.logprobs) == (12, 5, 4)
    assert params.output_kind is OutputKind.FINAL


def test_without_a_limit_the_answer_may_fill_the_context(
    client: httpx.Client, llm: FakeLLM
) -> None:
    post(client)

    assert llm.params[0].max_tokens is None
    assert llm.params[0].temperature is None


def test_empty_and_null_fields_are_as_absent(client: httpx.Client, llm: FakeLLM) -> None:
    empty = {
        "logit_bias": {},
        "stop": [],
        "tools": [],
        "user": "",
        "metadata": {},
        "chat_template_kwargs": {},
        "bad_words": [],
        "response_format": {"type": "text"},
        "tool_choice": "none",
        "modalities": ["text"],
        "store": False,
    }
    nulls = dict.fromkeys(
        [
            "model", "n", "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k",
            "min_p", "min_tokens", "repetition_penalty", "presence_penalty", "frequency_penalty",
            "logit_bias", "stop", "stop_token_ids", "tools", "tool_choice", "functions",
            "function_call", "response_format", "user", "metadata", "seed", "stream", "logprobs",
            "stream_options", "top_logprobs", "prompt_logprobs", "audio", "modalities",
            "chat_template", "chat_template_kwargs", "priority", "cache_salt", "best_of",
            "allowed_token_ids", "bad_words", "ignore_eos", "skip_special_tokens", "store",
            "add_generation_prompt", "continue_final_message", "add_special_tokens", "logprobs",
        ]
    )  # fmt: skip
    plain, emptied, nulled = post(client), post(client, **empty), post(client, **nulls)

    assert plain.status_code == emptied.status_code == nulled.status_code == 200
    assert llm.params[0] == llm.params[1] == llm.params[2]
    assert llm.prompts[0] == llm.prompts[1] == llm.prompts[2]


def test_harmless_and_unknown_fields_are_ignored(client: httpx.Client) -> None:
    fields = {
        "store": True,
        "metadata": {"a": "b"},
        "service_tier": "auto",
        "parallel_tool_calls": True,
        "reasoning_effort": "low",
        "prompt_cache_key": "x",
        "brand_new": {"a": [1]},
    }

    assert post(client, **fields).status_code == 200


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tools", [{"type": "function", "function": {"name": "f"}}]),
        ("tool_choice", "required"),
        ("tool_choice", {"type": "function", "function": {"name": "f"}}),
        ("functions", [{"name": "f"}]),
        ("function_call", {"name": "f"}),
        ("response_format", {"type": "json_object"}),
        ("response_format", {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}),
        ("modalities", ["text", "audio"]),
        ("audio", {"voice": "x", "format": "wav"}),
        ("guided_json", {"type": "object"}),
        ("guided_regex", "a+"),
        ("structured_outputs", {"regex": "a"}),
        ("logits_processors", ["x"]),
        ("use_beam_search", True),
        ("chat_template", "{{ messages }}"),
        ("web_search_options", {"a": 1}),
        ("documents", [{"text": "x"}]),
        ("echo", True),
        ("return_token_ids", True),
    ],
)
def test_a_feature_that_is_not_here_is_refused_by_name(
    client: httpx.Client, llm: FakeLLM, field: str, value: object
) -> None:
    answer = post(client, **{field: value})

    assert answer.status_code == 400
    assert refusal(answer)["param"] == field
    assert refusal(answer)["code"] == "unsupported_parameter"
    assert llm.prompts == []


def test_tools_that_must_not_be_called_are_no_obstacle(client: httpx.Client) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]

    assert post(client, tools=tools, tool_choice="none").status_code == 200


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -1),
        ("temperature", "0.5"),
        ("temperature", True),
        ("temperature", 1e9),
        ("top_p", 0),
        ("top_p", 1.1),
        ("top_k", -2),
        ("top_k", 1.5),
        ("min_p", -0.1),
        ("n", 0),
        ("n", 10**6),
        ("max_tokens", 0),
        ("max_tokens", -1),
        ("max_tokens", 2**63),
        ("max_completion_tokens", -1),
        ("min_tokens", -1),
        ("presence_penalty", 2.1),
        ("frequency_penalty", -2.1),
        ("repetition_penalty", 0),
        ("seed", 2**63),
        ("seed", "x"),
        ("stop", 5),
        ("stop", [5]),
        ("stop", ["x"] * 1000),
        ("stop_token_ids", [-1]),
        ("stop_token_ids", ["a"]),
        ("allowed_token_ids", [2**63]),
        ("logit_bias", {"a": 1}),
        ("logit_bias", {"-1": 1}),
        ("logit_bias", {"5": 101}),
        ("logit_bias", {"5": "x"}),
        ("logit_bias", [1]),
        ("stream", 1),
        ("stream", "true"),
        ("logprobs", 3),
        ("top_logprobs", -1),
        ("prompt_logprobs", -1),
        ("best_of", 2),
        ("priority", 2**40),
        ("model", 5),
        ("user", 5),
        ("truncate_prompt_tokens", -2),
        ("messages", []),
        ("messages", "hello"),
        ("messages", {"role": "user"}),
        ("chat_template_kwargs", [1]),
    ],
)
@pytest.mark.parametrize("kind", ["whole", "stream"])
def test_a_bad_value_is_a_400_that_names_the_field_before_any_event(
    client: httpx.Client, llm: FakeLLM, field: str, value: object, kind: str
) -> None:
    answer = post(client, **{"stream": kind == "stream", field: value})

    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"
    error = refusal(answer)
    assert error["param"].partition(".")[0].partition("[")[0] == field
    assert field in error["message"]
    assert llm.prompts == []


def test_a_refusal_has_the_value_and_the_bound(client: httpx.Client) -> None:
    message = refusal(post(client, temperature=-1.5))["message"]

    assert message == "temperature=-1.5: must be at least 0."


def test_a_long_bad_value_is_not_repeated_whole(client: httpx.Client) -> None:
    answer = post(client, temperature="x" * 100_000)

    assert len(answer.content) < 1000


def test_messages_are_required(client: httpx.Client) -> None:
    answer = client.post(PATH, json={})

    assert refusal(answer)["message"] == "messages: is required."


def test_options_of_a_stream_need_a_stream(client: httpx.Client) -> None:
    answer = post(client, stream_options={"include_usage": True})

    assert answer.status_code == 400
    assert refusal(answer)["param"] == "stream_options"


@pytest.mark.parametrize("kind", ["whole", "stream"])
def test_a_prompt_that_is_too_long_is_a_400_before_any_event(
    client: httpx.Client, llm: FakeLLM, kind: str
) -> None:
    llm.refusal = PromptTooLong(num_prompt_tokens=5000, max_tokens=1, limit=4096, param="messages")

    answer = post(client, stream=kind == "stream")

    assert answer.status_code == 400
    assert refusal(answer)["code"] == "context_length_exceeded"
    assert refusal(answer)["param"] == "messages"


def test_a_full_queue_is_a_429_with_retry_after(client: httpx.Client, llm: FakeLLM) -> None:
    llm.refusal = Overloaded("the queue is full", retry_after_s=2.2)

    answer = post(client, stream=True)

    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "3"
    assert refusal(answer)["type"] == "rate_limit_error"


@pytest.mark.parametrize("name", ["other", "", "fake ", "x" * 1000])
def test_a_model_that_is_not_served_is_a_404(client: httpx.Client, name: str) -> None:
    answer = post(client, model=name)

    assert answer.status_code == 404
    assert refusal(answer)["param"] == "model"
    assert refusal(answer)["code"] == "model_not_found"
    assert "'fake'" in refusal(answer)["message"]


def test_an_answer_carries_the_name_it_was_asked_by(client: httpx.Client) -> None:
    assert post(client, model="alias").json()["model"] == "alias"


def test_text_parts_of_a_message_are_joined(client: httpx.Client, llm: FakeLLM) -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]

    post(client, messages=[{"role": "user", "content": parts}])

    assert "<user>one\ntwo" in llm.prompts[0]


def test_an_image_is_a_400_that_names_its_place(client: httpx.Client) -> None:
    parts = [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "data:,"}}]

    answer = post(client, messages=[*TURNS, {"role": "user", "content": parts}])

    assert answer.status_code == 400
    assert refusal(answer)["param"] == "messages[1].content[1].type"


def test_arguments_of_a_past_call_that_are_not_json_are_a_400_that_names_them(
    client: httpx.Client,
) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{"}}

    answer = post(client, messages=[*TURNS, {"role": "assistant", "tool_calls": [call]}])

    assert answer.status_code == 400
    assert refusal(answer)["param"] == "messages[1].tool_calls[0].function.arguments"


def test_a_history_with_a_past_call_is_served(client: httpx.Client) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    history = [
        *TURNS,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "2", "tool_call_id": "1"},
    ]

    assert post(client, messages=history).status_code == 200


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ({"content": "x"}, "messages[0].role"),
        ({"role": "nobody", "content": "x"}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": 5}, "messages[0].content"),
        ({"role": "user", "content": [{"text": "x"}]}, "messages[0].content"),
        ("x", "messages[0]"),
    ],
)
def test_a_bad_message_is_a_400_that_names_its_place(
    client: httpx.Client, message: object, place: str
) -> None:
    answer = post(client, messages=[message])

    assert answer.status_code == 400
    assert refusal(answer)["param"].startswith(place)


def test_the_last_message_can_be_continued(client: httpx.Client, llm: FakeLLM) -> None:
    history = [*TURNS, {"role": "assistant", "content": "The"}]

    answer = post(client, messages=history, continue_final_message=True)

    assert answer.status_code == 200
    assert llm.prompts[0].endswith("<assistant>The")


def test_a_continuation_that_cannot_be_one_is_refused(client: httpx.Client) -> None:
    last = post(client, continue_final_message=True)
    both = post(
        client,
        messages=[*TURNS, {"role": "assistant", "content": "The"}],
        continue_final_message=True,
        add_generation_prompt=True,
    )

    assert refusal(last)["param"] == "messages"
    assert refusal(both)["param"] == "continue_final_message"


@pytest.mark.parametrize(
    ("failure", "told"),
    [(EngineDied("gone: out of memory"), "gone: out of memory"), (ValueError("secret"), "its log")],
)
def test_an_error_after_the_start_is_an_error_event_and_the_end(
    client: httpx.Client, llm: FakeLLM, failure: Exception, told: str
) -> None:
    llm.failure = failure

    *_, error, mark = events(post(client, stream=True).text)

    assert mark == "[DONE]"
    assert told in error
    assert '"error"' in error
    assert "secret" not in error
    assert eventually(lambda: not llm.live)


def test_a_request_that_breaks_alone_is_told_with_its_status(
    client: httpx.Client, llm: FakeLLM
) -> None:
    llm.failure = RequestFailed("logits are not finite", status=500)

    answer = post(client)

    assert answer.status_code == 500
    assert refusal(answer)["code"] == "request_failed"
    assert "not finite" in refusal(answer)["message"]


def test_an_engine_that_dies_under_a_whole_answer_is_a_503(
    client: httpx.Client, llm: FakeLLM
) -> None:
    llm.failure = EngineDied("gone")

    answer = post(client)

    assert answer.status_code == 503
    assert refusal(answer)["code"] == "engine_died"
