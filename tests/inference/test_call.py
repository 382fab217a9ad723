"""The content address of a call, and what is on the wire for it."""

import json

import pytest
from tokenmill.inference.call import Answer, Call, MalformedAnswer, Usage

MESSAGES = ({"role": "user", "content": "Why?"},)
FIRST = {"type": "object", "properties": {"working": {"type": "string"}, "answer": {"type": "string"}}}
TURNED = {"type": "object", "properties": dict(reversed(FIRST["properties"].items()))}


def test_fields_of_a_schema_go_out_in_their_order_since_models_write_them_in_it():
    body = json.loads(Call("m", MESSAGES, schema=FIRST).body)
    assert list(body["response_format"]["json_schema"]["schema"]["properties"]) == ["working", "answer"]
    assert Call("m", MESSAGES, schema=FIRST).address != Call("m", MESSAGES, schema=TURNED).address


def test_the_order_of_parameters_does_not_change_the_address():
    one = Call("m", MESSAGES, {"temperature": 0.5, "seed": 1, "extra": {"a": 1, "b": 2}})
    other = Call(
        "m", ({"content": "Why?", "role": "user"},), {"extra": {"b": 2, "a": 1}, "seed": 1, "temperature": 0.5}
    )
    assert one.address == other.address
    assert len({one.address, Call("m", MESSAGES).address, Call("m", MESSAGES, attempt=1).address}) == 3


STRICT = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["a", "b"]},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["kind", "parts", "note"],
    "additionalProperties": False,
    "$defs": {
        "part": {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    },
}


@pytest.mark.parametrize(
    ("change", "strict"),
    [
        ({}, True),
        ({"required": ["kind", "parts"]}, False),
        ({"additionalProperties": True}, False),
        ({"properties": {**STRICT["properties"], "note": {}}}, False),
        ({"properties": {**STRICT["properties"], "note": {"oneOf": [{"type": "string"}]}}}, False),
        ({"properties": {**STRICT["properties"], "note": {"type": "object"}}}, False),
        ({"$defs": {"part": {"type": "object", "properties": {"x": True}, "required": ["x"]}}}, False),
    ],
)
def test_an_answer_is_asked_for_strictly_only_under_a_schema_that_allows_it(change, strict):
    body = json.loads(Call("m", MESSAGES, schema={**STRICT, **change}).body)
    assert body["response_format"]["json_schema"]["strict"] is strict


def body(finish_reason=None, tokens=7, **message):
    """A response without text."""
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish_reason}
    usage = {"prompt_tokens": 5, "completion_tokens": tokens, "total_tokens": 5 + tokens}
    return json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode()


@pytest.mark.parametrize(
    ("raw", "text", "finish_reason"),
    [
        (body("length", reasoning_content="Well, let me see"), "", "length"),
        (body("content_filter", tokens=0), "", "content_filter"),
        (body("stop", content=""), "", "stop"),
        (body("stop", refusal="I can't help with that."), "I can't help with that.", "stop"),
        (body(None, refusal="I can't help with that."), "I can't help with that.", ""),
    ],
)
def test_an_answer_may_have_a_reason_to_be_without_text(raw, text, finish_reason):
    answer = Answer.parse(raw)
    assert (answer.text, answer.finish_reason, answer.raw) == (text, finish_reason, raw)
    assert answer.usage == Usage(5, json.loads(raw)["usage"]["completion_tokens"])


@pytest.mark.parametrize(
    "raw",
    [
        body(),
        body("error"),
        body("stop", tokens=0),  # nothing was written, not even an end
        body({"length": 1}),
        body("length", content=3),
        b'{"choices": [{"message": {"content": null}}]}',
        b'{"choices": [], "usage": {"total_tokens": 9}}',
        b'{"error": "overloaded"}',
        b'{"choices": [{"error": {"message": "cut"}, "message": {"content": "Half an ans"}}]}',
        b'{"choices": [',
        b"<html></html>",
    ],
)
def test_what_is_no_answer_is_malformed(raw):
    with pytest.raises(MalformedAnswer):
        Answer.parse(raw)


def text_of(content):
    return Answer.parse(body("stop", content=content)).text


def test_a_text_in_parts_is_put_together():
    parts = [{"type": "text", "text": "One. "}, {"type": "thinking", "thinking": []}, {"type": "text", "text": "Two."}]
    assert text_of(parts) == "One. Two."


@pytest.mark.parametrize(
    "content",
    [
        "<think>hmm, let me see.\n</think>\n\nThe text.",
        "<think>\n\n</think>\n\nThe text.",
        "\n<Thinking>a <b> c</Thinking>The text.",
        "<thought>a</thought> The text.",
        "<reasoning>a</reasoning>\nThe text.",
        "hmm, I should.</think>\n\nThe text.",
        "I write </think> when I am done.\n</think>\nThe text.",
    ],
)
def test_thinking_is_no_part_of_the_text(content):
    assert text_of(content) == "The text."
    assert Answer.parse(body("stop", content=content)).raw == body("stop", content=content)


@pytest.mark.parametrize(
    "content",
    [
        "The text.",
        "Such a model ends its thinking with </think> and then answers.",
        "Such a model writes <think>, then ponders, then writes\n</think>\nand answers.",
        "A template may end so:\n```\n</think>\n```\nand the rest is the answer.",
        "It is said in <b>bold</b>\nand <i>italics</i>.",
        "<think>I was cut off before",
        '{"quote": "hmm</think>\\n"}',
    ],
)
def test_what_is_no_thinking_or_does_not_end_stays(content):
    assert text_of(content) == content


def test_nothing_but_thinking_is_an_answer_without_text():
    assert text_of("<think>hmm</think>\n") == "" == text_of("hmm\n</think>")


def test_reasoning_is_kept_apart_wherever_a_server_leaves_it():
    def answer(**message):
        return Answer.parse(json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode())

    apart = answer(content="It rains.", reasoning_content="They ask for Oslo.")
    assert (apart.text, apart.reasoning) == ("It rains.", "They ask for Oslo.")
    assert answer(content="It rains.", reasoning="Oslo.").reasoning == "Oslo."
    inside = answer(content="<think>\nThey ask for Oslo.\n</think>\n\nIt rains.")
    assert (inside.text, inside.reasoning) == ("It rains.", "They ask for Oslo.")
    assert answer(content="They ask.\n</think>\nIt rains.").reasoning == "They ask."
    assert answer(content="It rains.").reasoning == ""
