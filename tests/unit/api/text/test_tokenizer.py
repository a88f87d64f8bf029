"""Tokenizers from small made-up files, and what is refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from octavo.api.text.gguf import parts_from_gguf
from octavo.api.text.loading import load_tokenizer
from octavo.api.text.tokenizer import Tokenizer, TokenizerParts
from octavo.kit.errors import CheckpointError, Unsupported
from octavo.testing.fake_tokenizer import BOS_ID, EOS_ID, VOCAB_SIZE, FakeTokenizer

CORPUS = ["the cat sat on the mat", "a dog ate the cat's hat", "über 123 naïve façades"] * 20


@given(st.text())
@settings(max_examples=200, deadline=None)
def test_every_text_is_its_bytes_and_comes_back(text: str) -> None:
    tokenizer = FakeTokenizer()
    plain = text.replace("<", "")  # no special token in it

    token_ids = tokenizer.encode(plain, add_special_tokens=False)

    assert token_ids == list(plain.encode())
    assert tokenizer.decode(token_ids) == plain


def test_special_tokens_are_found_in_text_and_left_out_on_demand() -> None:
    tokenizer = FakeTokenizer()

    token_ids = tokenizer.encode("a<eos>b<tool>", add_special_tokens=True)

    assert token_ids[0] == BOS_ID
    assert EOS_ID in token_ids
    assert tokenizer.decode(token_ids) == "<bos>a<eos>b<tool>"
    assert tokenizer.decode(token_ids, skip_special_tokens=True) == "ab<tool>"
    assert tokenizer.vocab_size == VOCAB_SIZE


def test_ids_that_name_no_token_have_no_text() -> None:
    assert FakeTokenizer().decode([VOCAB_SIZE, 10**6, 65]) == "A"


def test_half_of_a_surrogate_pair_says_where_it_is() -> None:
    with pytest.raises(UnicodeEncodeError) as caught:
        FakeTokenizer().encode("ab\ud800", add_special_tokens=False)
    assert caught.value.start == 2


def byte_level_core() -> tokenizers.Tokenizer:
    core = tokenizers.Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(CORPUS, trainer)
    return core


def write_folder(folder: Path, config: dict[str, Any] | None = None) -> Path:
    byte_level_core().save(str(folder / "tokenizer.json"))
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_a_folder_gives_its_tokenizer_roles_and_templates(tmp_path: Path) -> None:
    config = {
        "bos_token": "<s>",
        "eos_token": {"content": "</s>"},
        "chat_template": [
            {"name": "default", "template": "old"},
            {"name": "tool_use", "template": "T"},
        ],
    }
    (tmp_path / "chat_template.jinja").write_text("new")

    tokenizer = load_tokenizer(str(write_folder(tmp_path, config)))

    text = "the cat's 12 façades\n"
    token_ids = tokenizer.encode(text, add_special_tokens=True)
    assert token_ids == byte_level_core().encode(text).ids
    assert tokenizer.decode(token_ids) == text
    assert tokenizer.special_tokens == {"bos_token": "<s>", "eos_token": "</s>"}
    assert tokenizer.chat_templates == {"default": "new", "tool_use": "T"}


def test_tokens_that_only_the_config_lists_are_added(tmp_path: Path) -> None:
    size = byte_level_core().get_vocab_size()
    listed = {str(size): {"content": "<|extra|>", "special": True, "normalized": False}}

    tokenizer = load_tokenizer(str(write_folder(tmp_path, {"added_tokens_decoder": listed})))

    assert tokenizer.encode("<|extra|>", add_special_tokens=False) == [size]
    assert size in tokenizer.special_ids


def test_a_listed_token_whose_id_is_taken_is_refused(tmp_path: Path) -> None:
    listed = {"9999": {"content": "<|extra|>", "special": True}}

    with pytest.raises(CheckpointError, match=r"'<\|extra\|>' has id 9999"):
        load_tokenizer(str(write_folder(tmp_path, {"added_tokens_decoder": listed})))


def test_an_added_token_with_a_space_is_spelled_as_it_is(tmp_path: Path) -> None:
    core = byte_level_core()
    core.add_tokens([AddedToken("two words", normalized=False)])
    core.save(str(tmp_path / "tokenizer.json"))

    tokenizer = load_tokenizer(str(tmp_path))

    assert tokenizer.decode(tokenizer.encode("a two words é", add_special_tokens=False)) == (
        "a two words é"
    )


def test_truncation_in_the_file_does_not_cut_prompts(tmp_path: Path) -> None:
    core = byte_level_core()
    core.enable_truncation(4)
    core.enable_padding(length=64)
    core.save(str(tmp_path / "tokenizer.json"))

    token_ids = load_tokenizer(str(tmp_path)).encode("the cat " * 20, add_special_tokens=False)

    assert 4 < len(token_ids) < 64


@pytest.mark.parametrize(
    ("files", "error"),
    [
        ({}, "neither tokenizer.json nor tokenizer.model"),
        ({"tokenizer.json": "{"}, "is no tokenizer"),
        ({"tokenizer.json": '{"version": "1.0"}'}, "is no tokenizer"),
        ({"tokenizer.model": "nonsense"}, "is no SentencePiece model"),
        ({"tokenizer.json": "{}", "tokenizer_config.json": "[1]"}, "JSON"),
    ],
)
def test_folders_that_hold_something_else_are_refused(
    tmp_path: Path, files: dict[str, str], error: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    with pytest.raises(CheckpointError, match=error):
        load_tokenizer(str(tmp_path))


def test_a_path_to_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="must be a folder"):
        load_tokenizer(str(tmp_path / "nothing"))


def test_a_decoder_of_another_kind_is_refused() -> None:
    core = tokenizers.Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    core.decoder = decoders.WordPiece()

    with pytest.raises(Unsupported, match="WordPiece"):
        Tokenizer(TokenizerParts(core=core))


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def sentencepiece_model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "corpus.txt").write_text("\n".join(CORPUS * 5))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "corpus.txt"),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=330,
        model_type=request.param,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        user_defined_symbols=["<tool>"],
        minloglevel=2,
        num_threads=1,
        hard_vocab_limit=False,
    )
    return folder


def test_sentencepiece_models_give_the_ids_of_the_original(sentencepiece_model: Path) -> None:
    original = sentencepiece.SentencePieceProcessor(str(sentencepiece_model / "tokenizer.model"))
    tokenizer = load_tokenizer(str(sentencepiece_model))
    texts = [*CORPUS[:3], "cat", " cat", "  the  mat ", "日本 🇯🇵", "x\n\ty", "ééé"]

    for text in texts:
        token_ids = tokenizer.encode(text, add_special_tokens=False)
        assert token_ids == original.encode(text)
        assert tokenizer.decode(token_ids) == original.decode(token_ids)
        assert tokenizer.encode(text, add_special_tokens=True) == [original.bos_id(), *token_ids]


def test_a_run_of_byte_tokens_keeps_the_characters_that_are_whole(
    sentencepiece_model: Path,
) -> None:
    tokenizer = load_tokenizer(str(sentencepiece_model))
    byte = [tokenizer.find_id(f"<0x{b:02X}>") for b in "日".encode()]

    assert tokenizer.decode([*byte, byte[0]]) == "日\ufffd"


def gguf(**changes: object) -> dict[str, object]:
    spelled = sorted(pre_tokenizers.ByteLevel.alphabet())
    metadata: dict[str, object] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [*spelled, "th", "the", "<e>", "<u>", "Ġ Ġ"],
        "tokenizer.ggml.token_type": [*[1] * len(spelled), 1, 1, 3, 4, 1],
        "tokenizer.ggml.merges": ["t h", "th e"],
        "tokenizer.ggml.eos_token_id": len(spelled) + 2,
        "tokenizer.ggml.bos_token_id": len(spelled) + 2,
    }
    return metadata | {f"tokenizer.{key}": value for key, value in changes.items()}


def tokenizer_of(metadata: dict[str, object]) -> Tokenizer:
    return Tokenizer(parts_from_gguf(metadata, source="model.gguf"))


def test_gguf_metadata_give_merges_markers_and_roles() -> None:
    tokenizer = tokenizer_of(gguf())
    the, end, user = (tokenizer.find_id(token) for token in ("the", "<e>", "<u>"))

    assert tokenizer.encode("the<e><u>", add_special_tokens=True) == [the, end, user]
    assert tokenizer.decode([the, end, user], skip_special_tokens=True) == "the<u>"
    assert tokenizer.special_tokens == {"bos_token": "<e>", "eos_token": "<e>"}


def test_begin_and_end_of_text_are_added_where_the_file_says_so() -> None:
    metadata = gguf(**{"ggml.add_bos_token": True, "ggml.add_eos_token": True})
    tokenizer = tokenizer_of(metadata)
    the, end = tokenizer.find_id("the"), tokenizer.find_id("<e>")

    assert tokenizer.encode("the", add_special_tokens=True) == [end, the, end]
    assert tokenizer.encode("the", add_special_tokens=False) == [the]


def test_named_templates_of_a_file_keep_their_names() -> None:
    metadata = gguf(chat_template="plain", **{"chat_template.tool_use": "tools"})

    assert tokenizer_of(metadata).chat_templates == {"default": "plain", "tool_use": "tools"}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"ggml.model": "bert"}, "tokenizer.ggml.model='bert'"),
        ({"ggml.pre": "unheard-of"}, "tokenizer.ggml.pre='unheard-of'"),
    ],
)
def test_kinds_that_octavo_does_not_have_are_named(changes: dict[str, object], error: str) -> None:
    with pytest.raises(Unsupported, match=error):
        tokenizer_of(gguf(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"ggml.model": None},
        {"ggml.tokens": None},
        {"ggml.tokens": []},
        {"ggml.tokens": 3},
        {"ggml.merges": None},
        {"ggml.merges": "t h"},
        {"ggml.merges": ["x y z"]},
        {"ggml.merges": ["th"]},
        {"ggml.merges": ["unheard of"]},
        {"ggml.token_type": [1]},
        {"ggml.token_type": "none"},
        {"ggml.eos_token_id": 10**6},
        {"ggml.eos_token_id": "x"},
        {"ggml.model": "llama"},
        {"ggml.model": "llama", "ggml.scores": [0.0]},
    ],
)
def test_damaged_metadata_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(CheckpointError, match=r"model\.gguf"):
        tokenizer_of(gguf(**changes))


@pytest.mark.parametrize("cut", [1, 5, 50, 500])
def test_a_sentencepiece_model_cut_off_is_refused(tmp_path: Path, cut: int) -> None:
    piece = b"\x0a\x03abc" + b"\x15" + struct.pack("<f", -1.0)
    data = (b"\x0a" + bytes([len(piece)]) + piece) * 60
    (tmp_path / "tokenizer.model").write_bytes(data[:-cut])

    with pytest.raises(CheckpointError):
        load_tokenizer(str(tmp_path))
