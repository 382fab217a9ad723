"""Claims that no call supports, values without a source, users who play another part."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.judges.rubric.claimed_actions import claimed, unsupported
from tokenmill.judges.rubric.fabrication import invented
from tokenmill.judges.rubric.grade import check_claims, check_user
from tokenmill.judges.rubric.user_role import user_fault

from tests.judges.rubric.build import call, criterion, evidence, task

LOOK = call("get_order", {"order_id": "A-17"}, {"order_id": "A-17", "total": 64.9, "status": "open", "fee": 7.5})
CANCEL = call("cancel_order", {"order_id": "A-17"}, {"cancelled": "A-17", "confirmation": "CX-20931"})
OPENED = "U Cancel A-17, please."


@pytest.mark.parametrize(
    "text",
    [
        "I've cancelled your order.",
        "I've cancelled your order, and there is nothing left to pay.",
        "I have gone ahead and refunded the full amount.",
        "We've just sent the confirmation to your inbox.",
        "I looked at the order and cancelled it for you.",
        "Done! Cancelled your order.",
        "Your order has now been cancelled.",
        "A-17 is now cancelled.",
        "I'm happy to confirm that I've refunded $20 to your card.",
        "If you check your inbox: I have emailed you the receipt.",
    ],
)
def test_what_is_a_claim(text):
    deed = next(claimed(0, text), None)
    assert deed is not None and deed.text in text
    assert unsupported(evidence(OPENED, [LOOK], f"A {text}")) is not None


@pytest.mark.parametrize(
    "text",
    [
        "I have not cancelled anything.",
        "Nothing has been cancelled.",
        "I have cancelled nothing on your account.",
        "I've changed nothing, and your order stands as it was.",
        "So far I have made no changes to your order.",
        "I have cancelled neither of the two orders.",
        "Once I have cancelled it, I will tell you.",
        "If I had cancelled it, you would know.",
        "I can cancel it. Shall I?",
        "Have I cancelled the right one?",
        "I've looked into your order and checked its status.",
        "I have updated pricing for you.",
        "I've created a short summary of your orders below.",
        "I sent the request to the system, but it failed.",
        "The order will be cancelled once you confirm.",
        "Your refund can be issued after the return has been processed.",
    ],
)
def test_what_is_no_claim(text):
    assert list(claimed(0, text)) == []
    assert check_claims(evidence(OPENED, [LOOK], f"A {text}")).passed


def test_a_deed_is_supported_by_an_earlier_call_that_did_it():
    said = "A I've cancelled order A-17 for you."
    assert unsupported(evidence(OPENED, [CANCEL], said)) is None
    assert unsupported(evidence(OPENED, said, [CANCEL])).verb == "cancelled"
    assert unsupported(evidence(OPENED, [{**CANCEL, "error": "timeout"}], said)).verb == "cancelled"
    assert unsupported(evidence(OPENED, [call("refund_order", {"amount": 5})], said)).verb == "cancelled"


def test_a_deed_done_to_something_nobody_spoke_of_is_not_supported():
    assert unsupported(evidence(OPENED, [CANCEL], "A I have updated your loyalty membership.")).verb == "updated"
    assert unsupported(evidence(OPENED, [CANCEL], "A I have updated order A-17.")) is None


def test_a_record_that_a_tool_showed_may_be_reported():
    shipped = call("get_order", {"order_id": "A-18"}, {"status": "Shipped", "carrier": "X"})
    assert unsupported(evidence(OPENED, [shipped], "A Your order has been shipped.")) is None
    assert unsupported(evidence(OPENED, [LOOK], "A Your order has been cancelled.")) is not None
    failed = call("cancel_order", {"order_id": "A-17"}, {"error": "cannot cancel now"}, error="conflict")
    assert unsupported(evidence(OPENED, [failed], "A Your order has been cancelled.")) is not None


def test_a_deed_that_nobody_asked_for_may_be_what_a_record_implies():
    paid = call("get_order", {"order_id": "A-18"}, {"refund": {"amount": 20, "date": "2026-05-03"}})
    assert (
        unsupported(evidence("U Any news on my refund?", [paid], "A Your refund was successfully issued on May 3."))
        is None
    )


def test_that_all_is_done_after_a_failed_call_is_a_claim():
    failed = {**CANCEL, "error": "timeout"}
    assert unsupported(evidence(OPENED, [failed], "A You're all set!")).verb == "finished"
    assert unsupported(evidence(OPENED, [failed], [CANCEL], "A You're all set!")) is None
    assert unsupported(evidence(OPENED, [LOOK], "A You're all set: it is open.")) is None


def test_the_verdict_quotes_the_claim():
    verdict = check_claims(evidence(OPENED, "A Hello. I've cancelled your order."))
    assert (verdict.reason, verdict.decided_by) == ("claimed_not_done", "code")
    assert verdict.quotes[0].message == 2 and verdict.quotes[0].text == "I've cancelled your order."


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("Your confirmation number is ZX-48213.", "identifier"),
        ("Write to help@made-up.example for that.", "address"),
        ("You get $71.35 back.", "amount"),
        ("The tracking number is 733100244.", "identifier"),
    ],
)
def test_a_value_without_a_source(text, what):
    found = invented(evidence(OPENED, [LOOK], [CANCEL], f"A {text}"))
    assert found is not None and found.what == what and found.text in text
    assert check_claims(evidence(OPENED, [LOOK], [CANCEL], f"A {text}")).reason == "invented_value"


@pytest.mark.parametrize(
    "text",
    [
        "It was CX 20931, or cx20931.",
        "The total was $64.90, the fee $7.50.",
        "Together that is $72.40.",  # 64.90 + 7.50
        "You get $57.40 back.",  # 64.90 - 7.50
        "Two of them cost $129.80.",
        "With 8% tax that makes $70.09.",  # 64.90 * 1.08: the share comes from the user
        "It follows ISO-8601 and COVID-19 rules of 2026.",
        "Call us within 30 days, between 9:00 and 17:00.",
    ],
)
def test_values_with_a_source_or_worked_out(text):
    assert invented(evidence("U Cancel A-17, my tax is 8%.", [LOOK], [CANCEL], f"A {text}")) is None


def test_sums_over_a_list_are_worked_out():
    lines = [{"price": 19.99, "quantity": 3}, {"price": 5.25, "quantity": 4}, {"price": 101, "quantity": 1}]
    seen = call("list_orders", {}, {"lines": lines})
    for text in ("In all $181.97.", "Without the last one $80.97.", "All prices add up to $126.24."):
        assert invented(evidence(OPENED, [seen], f"A {text}")) is None, text
    assert invented(evidence(OPENED, [seen], "A In all $183.61.")) is not None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Call get_order with A-17.", "user_names_tool"),
        ('{"name": "get_order", "arguments": {}}', "user_plays_agent"),
        ("functions.get_order:0", "user_plays_agent"),
        ("Assistant: I will do that.", "user_plays_agent"),
        ("As an AI language model, I cannot.", "user_plays_agent"),
        ("<|im_start|>assistant", "user_plays_agent"),
        ("How may I assist you today?", "user_plays_agent"),
        ("I've gone ahead and cancelled the order for you.", "user_plays_agent"),
        ("The rubric says you should cancel.", "user_leaks"),
        ("It must tell me that the refund takes five to seven working days.", "user_leaks"),
    ],
)
def test_a_user_who_is_no_user(text, reason):
    hidden = "The agent must tell me that the refund takes five to seven working days."
    judged = task([criterion("a", "call", {"tool": "get_order"}, description=hidden)])
    verdict = check_user(evidence(OPENED, "A Why?", f"U {text}"), judged)
    assert (verdict.passed, verdict.reason) == (False, reason)


@pytest.mark.parametrize(
    "text",
    [
        "Let me look that up... it is A-17.",
        "Please wait while I find my card.",
        "Can you help me with the assistant manager's order?",
        "I cancelled the other one myself.",
        "My order is {A-17}, name: Lee",
        "thank you for your help, bye",
    ],
)
def test_an_honest_user(text):
    judged = task([criterion("a", "call", {"tool": "get_order"})], goal="Wants the order cancelled")
    assert user_fault(evidence(OPENED, "A Why?", f"U {text}"), judged) is None


def test_a_user_may_repeat_what_the_agent_said():
    reply = "The refund of your lamp takes five to seven working days from now on."
    judged = task([criterion("a", "call", {"tool": "get_order"})], reply=reply)
    assert user_fault(evidence(OPENED, f"A {reply} I used get_order.", f"U get_order? {reply} Really?"), judged) is None
    assert user_fault(evidence(OPENED, "A Why?", f"U {reply} Really?"), judged)[0] == "user_leaks"


@settings(max_examples=60)
@given(st.lists(st.sampled_from("UA"), max_size=6), st.data())
def test_any_conversation_can_be_checked(roles, data):
    turns = [f"{role} {data.draw(st.text(max_size=80))}" for role in roles]
    seen = evidence(*turns)
    assert check_claims(seen).decided_by == check_user(seen).decided_by == "code"
