from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from octavo.kit.errors import EngineDied
from octavo.testing.fake_llm import FakeLLM
from tests.unit.api.http.reading import chunks, events, refusal

PATH = "/v1/completions"


def post(client: httpx.Client, prompt: object = "ab", **fields: object) -> httpx.Response:
    return client.post(PATH, json={"prompt": prompt, **fields})


@pytest.mark.parametrize(
    ("prompt", "texts"),
    [
        ("ab", ["ab"]),
        (["ab", "cd"], ["ab", "cd"]),
        ([97, 98], ["ab"]),
        ([[97, 98], [99]], ["ab", "c"]),
        ("", [""]),
    ],
)
def test_a_prompt_is_text_texts_ids_or_lists_of_ids(
    client: httpx.Client, llm: FakeLLM, prompt: object, texts: list[str]
) -> None:
    answer = post(client, prompt)

    assert answer.status_code == 200
    assert llm.prompts == texts
    assert [choice["index"] for choice in answer.json()["choices"]] == list(range(len(texts)))


@pytest.mark.parametrize(
    ("prompt", "place"),
    [
        ([], "prompt"),
        (5, "prompt"),
        ({"a": 1}, "prompt"),
        ([[]], "prompt[0]"),
        ([1, "a"], "prompt[1]"),
        ([1, True], "prompt[1]"),
        ([1, -1], "prompt[1]"),
        ([1, 2**63], "prompt[1]"),
        ([1, 1.5], "prompt[1]"),
        (["a", 1], "prompt[1]"),
        ([[1], "a"], "prompt[1]"),
        ([[1], [2, None]], "prompt[1][1]"),
        ([None], "prompt[0]"),
        (["x"] * 5000, "prompt"),
    ],
)
def test_another_prompt_is_a_400_that_names_the_place(
    client: httpx.Client, llm: FakeLLM, prompt: object, place: str
) -> None:
    answer = post(client, prompt)

    assert answer.status_code == 400
    assert refusal(answer)["param"] == place
    assert llm.prompts == []


def test_a_prompt_is_required(client: httpx.Client) -> None:
    for body in ({}, {"prompt": None}):
        assert refusal(client.post(PATH, json=body))["param"] == "prompt"


def test_the_default_limit_is_sixteen_tokens(client: httpx.Client, llm: FakeLLM) -> None:
    answer = post(client).json()

    assert llm.params[0].max_tokens == 16
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["choices"][0]["text"] == llm.answer[:16]


def test_answers_of_several_prompts_are_numbered_and_counted_together(
    client: httpx.Client, llm: FakeLLM
) -> None:
    fields = {"n": 2, "max_tokens": 3, "echo": True}
    whole = post(client, ["ab", "cde"], **fields).json()

    texts = {choice["index"]: choice["text"] for choice in whole["choices"]}
    assert texts == {0: "abThe", 1: "abThe", 2: "cdeThe", 3: "cdeThe"}
    assert whole["usage"]["prompt_tokens"] == 5
    assert whole["usage"]["completion_tokens"] == 12
    assert whole["usage"]["prompt_tokens_details"]["cached_tokens"] == 4


def test_streams_of_several_prompts_are_the_whole_answers(client: httpx.Client) -> None:
    fields = {"n": 2, "max_tokens": 3, "echo": True}
    whole = post(client, ["ab", "cde"], **fields).json()
    usage = {"stream_options": {"include_usage": True}}
    *data, last = chunks(post(client, ["ab", "cde"], stream=True, **usage, **fields))

    texts, ends = dict.fromkeys(range(4), ""), list[int]()
    for [choice] in (chunk["choices"] for chunk in data):
        texts[choice["index"]] += choice["text"]
        ends += [choice["index"]] if choice["finish_reason"] else []
    assert texts == {choice["index"]: choice["text"] for choice in whole["choices"]}
    assert sorted(ends) == [0, 1, 2, 3]
    assert last["choices"] == []
    assert last["usage"] == whole["usage"]


def test_one_refused_prompt_refuses_all_and_ends_the_others(
    client: httpx.Client, llm: FakeLLM
) -> None:
    llm.refused_prompt = "c"

    answer = post(client, ["a", "b", "c"])

    assert answer.status_code == 400
    assert llm.live == set()
    assert len(llm.aborted) == 2


@pytest.mark.parametrize("logprobs", [0, 2])
def test_logprobs_are_columns_that_agree_with_the_text(client: httpx.Client, logprobs: int) -> None:
    columns = post(client, logprobs=logprobs, max_tokens=4).json()["choices"][0]["logprobs"]

    assert set(columns) == {"text_offset", "token_logprobs", "tokens", "top_logprobs"}
    assert "".join(columns["tokens"]) == "The "
    assert columns["text_offset"] == [0, 1, 2, 3]
    assert all(value < 0 for value in columns["token_logprobs"])
    assert [len(top) for top in columns["top_logprobs"]] == [max(1, logprobs)] * 4


def test_echoed_logprobs_begin_with_the_prompt(client: httpx.Client, llm: FakeLLM) -> None:
    fields = {"echo": True, "logprobs": 1, "max_tokens": 2}
    choice = post(client, "abc", **fields).json()["choices"][0]

    columns = choice["logprobs"]
    assert choice["text"] == "".join(columns["tokens"]) == "abcTh"
    assert columns["text_offset"] == [0, 1, 2, 3, 4]
    assert columns["token_logprobs"][0] is None
    assert None not in columns["token_logprobs"][1:]
    assert columns["top_logprobs"][0] is None
    assert llm.params[0].prompt_logprobs == 1


def test_echoed_logprobs_are_the_same_streamed(client: httpx.Client) -> None:
    fields = {"echo": True, "logprobs": 1, "max_tokens": 3}
    whole = post(client, "abc", **fields).json()["choices"][0]["logprobs"]
    pieces = [
        chunk["choices"][0]["logprobs"]
        for chunk in chunks(post(client, "abc", stream=True, **fields))
    ]

    joined = {
        name: [item for piece in pieces if piece for item in piece[name]]
        for name in ("text_offset", "token_logprobs", "tokens", "top_logprobs")
    }
    assert joined == whole


def test_prompt_logprobs_are_given_per_choice(client: httpx.Client) -> None:
    choice = post(client, "abc", prompt_logprobs=2).json()["choices"][0]

    assert len(choice["prompt_logprobs"]) == 3
    assert choice["prompt_logprobs"][0] is None


def test_prompt_logprobs_do_not_go_with_a_stream(client: httpx.Client) -> None:
    answer = post(client, prompt_logprobs=1, stream=True)

    assert answer.status_code == 400
    assert refusal(answer)["param"] == "prompt_logprobs"


def test_best_of_must_equal_n(client: httpx.Client) -> None:
    assert post(client, n=2, best_of=2).status_code == 200
    assert refusal(post(client, n=2, best_of=3))["param"] == "best_of"


def test_a_suffix_is_refused_with_the_reason(client: httpx.Client) -> None:
    answer = post(client, suffix="end")

    assert answer.status_code == 400
    assert "fill in the middle" in refusal(answer)["message"]
    assert post(client, suffix="").status_code == 200


def test_special_tokens_are_added_unless_the_request_says_no(
    client: httpx.Client, llm: FakeLLM
) -> None:
    post(client, add_special_tokens=False)
    post(client)

    assert [prompt.add_special_tokens for prompt in llm.given] == [False, True]


def test_a_failing_prompt_of_several_ends_the_stream_and_the_others(
    client: httpx.Client, llm: FakeLLM
) -> None:
    llm.failure = EngineDied("gone: out of memory")

    *_, error, mark = events(post(client, ["a", "b"], stream=True).text)

    assert (mark, '"error"' in error) == ("[DONE]", True)
    assert "gone: out of memory" in error
    assert llm.live == set()


def test_more_prompts_than_the_server_ever_takes_are_a_400(
    client: httpx.Client, llm: FakeLLM
) -> None:
    llm.config = replace(
        llm.config, frontend=replace(llm.config.frontend, max_waiting_requests=2)
    )  # beside 8 that run

    assert post(client, ["x"] * 5, n=2).status_code == 200
    answer = post(client, ["x"] * 6, n=2)
    assert answer.status_code == 400
    assert "at most 10" in refusal(answer)["message"]
