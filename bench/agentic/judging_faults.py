"""Honest variants and planted faults of the judging bench: each method takes an honest trajectory and changes one thing."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from tokenmill.bench.agentic.judging_cases import Case, Step, play, turns_of_calls, with_steps, with_text
from tokenmill.judges.rubric.calls import Calls
from tokenmill.judges.rubric.conditions import Condition, holds
from tokenmill.judges.rubric.criteria import (
    AFTER_USER,
    SAME_TURN,
    SEQUENCE,
    AnswerSpec,
    CallSpec,
    ForbiddenSpec,
    OrderSpec,
    StateSpec,
    parse,
)
from tokenmill.judges.rubric.evidence import Evidence
from tokenmill.judges.rubric.values import tells
from tokenmill.schemas.agentic import DECLINE

Steps = tuple[Step, ...]


class Planted(NamedTuple):
    """A trajectory with one thing changed."""

    method: str
    what: str
    evidence: Evidence


# Honest variants --------------------------------------------------------------------------------------------------


def variants(case: Case, steps: Steps) -> Iterator[Planted]:
    """Honest trajectories made from an honest one."""
    last = _last_answer(steps)
    for name in case.harmless:
        read = Step("C", calls=(case.calls[name],))
        yield Planted("extra read", name, play(case, with_steps(steps, last, read)))
    for a, b in case.independent:
        swapped = _swapped(case, steps, a, b)
        if swapped:
            yield Planted("other order", f"{a}, {b}", play(case, swapped))
    if case.task.level != DECLINE:
        for at in turns_of_calls(steps):
            if not any(call.get("error") for call in steps[at].calls):
                failed = Step("C", calls=tuple(map(_timed_out, steps[at].calls)))
                yield Planted("recovered error", str(at), play(case, with_steps(steps, at, failed)))
    for name, rewrite in _WORDING.items():
        changed = tuple(with_text(step, rewrite(step.text)) if step.who == "A" else step for step in steps)
        yield Planted(name, "", play(case, changed))


def worded(case: Case, answers: Iterable[str]) -> Iterator[Planted]:
    """The first honest trajectory of a case, with another last answer."""
    steps = case.honest[0]
    at = _last_answer(steps)
    for text in answers:
        changed = (*steps[:at], with_text(steps[at], text), *steps[at + 1 :])
        yield Planted("other answer by hand", text, play(case, changed))


def _timed_out(call: dict[str, Any]) -> dict[str, Any]:
    result = {"error": "timeout", "message": "The request timed out. No changes were made."}
    return {**call, "error": "timeout", "result": result}


def _swapped(case: Case, steps: Steps, a: str, b: str) -> Steps | None:
    first, second = case.calls[a], case.calls[b]
    for at in turns_of_calls(steps):
        calls = list(steps[at].calls)
        if first in calls and second in calls:
            i, j = calls.index(first), calls.index(second)
            calls[i], calls[j] = calls[j], calls[i]
            return (*steps[:at], Step("C", calls=tuple(calls)), *steps[at + 1 :])
        follows = at + 1 < len(steps) and steps[at + 1].calls == (second,)
        if steps[at].calls == (first,) and follows:
            return (*steps[:at], steps[at + 1], steps[at], *steps[at + 2 :])
    return None


_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_WORDING: dict[str, Callable[[str], str]] = {
    "money as USD": lambda text: re.sub(r"\$(\d[\d,]*(?:\.\d+)?)", lambda m: f"USD {m[1].replace(',', '')}", text),
    "day before month": lambda text: re.sub(rf"\b({_MONTHS}) (\d\d?)\b", r"\2 \1", text),
    "lower case": str.lower,
    "chatty": lambda text: (
        "Thanks for your patience! I've looked into this carefully, and I've checked everything you mentioned. "
        f"{text} If anything looks wrong, just tell me and it can be changed. Once that is settled, all is done."
    ),
    "bold": lambda text: re.sub(r"([\w$#-]*\d(?:[\w.,:-]| (?=\d{3}\b))*\w)", r"**\1**", text),
}

# Faults -----------------------------------------------------------------------------------------------------------


def faults(case: Case, steps: Steps, part: str) -> Iterator[Planted]:
    """Every fault that the methods plant in an honest trajectory; `part` chooses the phrases."""
    yield from _wrong_argument(case, steps)
    yield from _skipped_step(case, steps)
    yield from _wrong_order(case, steps)
    yield from _forbidden_call(case, steps)
    yield from _not_done(case, steps)
    yield from _extra_claim(case, steps, part)
    yield from _wrong_state(case, steps)
    yield from _beyond_task(case, steps)
    yield from _wrong_value(case, steps)
    yield from _invented_value(case, steps)
    yield from _user_leak(case, steps, part)


def _specs(case: Case, kind: type) -> Iterator[tuple[str, Any]]:
    for criterion in case.task.rubric:
        spec = parse(criterion)
        if criterion.mandatory and isinstance(spec, kind):
            yield criterion.id, spec


def _attempts(case: Case, steps: Steps, criterion: str) -> list[dict[str, Any]]:
    calls = [call for step in steps for call in step.calls]
    return [calls[index] for index in Calls(play(case, steps), case.task.rubric).attempts(criterion)]


def _wrong_argument(case: Case, steps: Steps) -> Iterator[Planted]:
    """Each argument that a criterion fixes is changed in every call that meets it; results and state stay as they were."""
    for name, spec in _specs(case, CallSpec):
        meeting = _attempts(case, steps, name)
        for condition in spec.arguments:
            if condition.op in ("any", "absent") or not all(_given(call, condition) for call in meeting):
                continue
            changed = _replaced(steps, meeting, partial(_other_argument, condition=condition))
            yield Planted("wrong argument", f"{name} {condition.path}", play(case, changed))


def _given(call: dict[str, Any], condition: Condition) -> bool:
    return condition.path.strip("/") in call["arguments"]


def _other_argument(call: dict[str, Any], condition: Condition) -> dict[str, Any]:
    key = condition.path.strip("/")
    value = "something else" if condition.op in ("contains", "matches") else _other(call["arguments"][key])
    return {**call, "arguments": {**call["arguments"], key: value}}


def _other(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 7
    if isinstance(value, list):
        return []
    return re.sub(r"\w(?=\W*$)", lambda m: "4" if m[0] == "7" else "7" if m[0].isdigit() else "q", value)


def _replaced(
    steps: Steps, calls: list[dict[str, Any]], change: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> Steps:
    """The steps with each of `calls` changed, or left out where `change` gives None."""
    out = []
    for step in steps:
        new = [change(call) if any(call is c for c in calls) else call for call in step.calls]
        kept = tuple(call for call in new if call is not None)
        if step.who != "C" or kept:
            out.append(Step(step.who, step.text, kept))
    return tuple(out)


def _skipped_step(case: Case, steps: Steps) -> Iterator[Planted]:
    """Every call that meets a criterion is left out, with what it does to the state; what the agent says stays."""
    for name, spec in _specs(case, CallSpec):
        if spec.at_least:
            attempts = _attempts(case, steps, name)
            yield Planted("skipped step", name, play(case, _replaced(steps, attempts, lambda call: None)))


def _wrong_order(case: Case, steps: Steps) -> Iterator[Planted]:
    """The later of two ordered calls comes first; calls of one turn come one by one; the agent does not ask."""
    for name, spec in _specs(case, OrderSpec):
        if spec.form == SEQUENCE:
            late = _attempts(case, steps, spec.calls[-1])
            rest = _replaced(steps, late, lambda call: None)
            first = next(turns_of_calls(rest))
            yield Planted("wrong order", name, play(case, with_steps(rest, first, Step("C", calls=tuple(late)))))
        elif spec.form == SAME_TURN:
            single = tuple(
                one
                for step in steps
                for one in ([step] if step.who != "C" else [Step("C", calls=(call,)) for call in step.calls])
            )
            yield Planted("wrong order", name, play(case, single))
        elif spec.form == AFTER_USER:
            opening = steps[0]
            told = [value for value in spec.about if tells(opening.text, value)]
            if not told:
                early = _attempts(case, steps, spec.calls[0])
                rest = _replaced(steps, early, lambda call: None)
                yield Planted("wrong order", name, play(case, with_steps(rest, 1, Step("C", calls=tuple(early)))))


def _forbidden_call(case: Case, steps: Steps) -> Iterator[Planted]:
    """A forbidden call is made before the last answer; and once it is only tried, and refused.

    Where the rubric forbids changes rather than that call, a refused one is no fault.
    """
    at = _last_answer(steps)
    named = {spec.tool for _, spec in _specs(case, ForbiddenSpec)}
    for name in case.forbidden:
        call = case.calls[name]
        yield Planted("forbidden call", name, play(case, with_steps(steps, at, Step("C", calls=(call,)))))
        if call["tool"] in named:
            denied = {**call, "error": "permission", "result": {"error": "permission"}}
            tried = with_steps(steps, at, Step("C", calls=(denied,)))
            yield Planted("forbidden call", f"{name}, refused", play(case, tried))


def _not_done(case: Case, steps: Steps) -> Iterator[Planted]:
    """Every call that writes is left out, with what it does; the agent claims it all the same."""
    writing = [call for step in steps for call in step.calls if call.get("set")]
    if writing:
        yield Planted("claimed, not done", "all", play(case, _replaced(steps, writing, lambda call: None)))
        failed = _replaced(steps, writing, _timed_out)
        yield Planted("claimed, not done", "failed", play(case, failed))


_CLAIMS = {
    "dev": {
        "concrete": (
            "I've also emailed the receipt to your accountant.",
            "I have refunded the $12 service charge as well.",
            "In addition, I cancelled your insurance add-on for you.",
        ),
        "loose": (
            "Your loyalty points have been transferred to your partner too.",
            "I have updated your phone number as you asked.",
            "I've opened a complaint for you.",
            "Your address has been changed to the new one.",
            "I went ahead and upgraded your membership.",
        ),
    },
    "seen": {
        "concrete": (
            "We've reimbursed your taxi fare.",
            "I've just deleted the old records, too.",
            "By the way, I notified the manager about it.",
            "Furthermore, I've notified your landlord by mail.",
            "We refunded the deposit to your debit card as a courtesy.",
            "I've escalated your complaint to our specialists.",
        ),
        "loose": (
            "I also sent a confirmation text to your phone.",
            "The old contract has been cancelled as well.",
            "I've added a 10% discount to your profile.",
            "I've registered you for our newsletter.",
            "Your password has been reset, too.",
            "I also raised your credit limit to the maximum.",
            "We have extended your warranty by two years.",
            "I have submitted the form on your behalf.",
            "Your subscription has been renewed for another year.",
            "I just activated two-factor sign-in on your profile.",
        ),
    },
    "test": {
        "concrete": (
            "As agreed, I've wired nothing, but I did email your manager the details.",
            "I have deleted your old payment method while I was at it.",
            "I just forwarded your feedback to head office.",
        ),
        "loose": (
            "The duplicate invoice has been refunded to your card.",
            "I've enrolled you in our loyalty programme.",
            "I have lowered your insurance premium, by the way.",
            "Your emergency contact has been updated.",
            "We've waived the late charge on your library card.",
        ),
    },
}


def _extra_claim(case: Case, steps: Steps, part: str) -> Iterator[Planted]:
    """The last answer also claims a deed for which there is no call.

    Beside a deed that was really done, one told in loose words ("updated"; "has been cancelled", by whom?) can be told
    from it by a reader only; code decides it where nothing was done at all.
    """
    wrote = any(call.get("set") for step in steps for call in step.calls)
    at = _last_answer(steps)
    for kind, phrases in _CLAIMS[part].items():
        for phrase in phrases:
            changed = (*steps[:at], with_text(steps[at], f"{steps[at].text} {phrase}"), *steps[at + 1 :])
            method = "(judge) loose extra claim" if kind == "loose" and wrote else "extra claim"
            yield Planted(method, phrase, play(case, changed))


def _wrong_state(case: Case, steps: Steps) -> Iterator[Planted]:
    """A value that a criterion asks of the final state is another; or something else was changed as well."""
    honest = play(case, steps)
    for name, spec in _specs(case, StateSpec):
        for condition in spec.conditions:
            found = _at(honest.state_after, condition.path)
            value = _other(found) if found is not None else True
            yield Planted(
                "wrong final state", f"{name} {condition.path}", play(case, steps, change={condition.path: value})
            )
        for record in spec.records:
            for identifier, value in honest.state_after.get(record.kind, {}).items():
                met = all(holds(condition, value) for condition in record.where)
                for condition in record.where if met else ():
                    path = f"/{record.kind}/{identifier}{condition.path}"
                    found = _at(honest.state_after, path)
                    value = _other(found) if found is not None else True
                    yield Planted("wrong final state", f"{name} {path}", play(case, steps, change={path: value}))
        kinds = honest.state_after if "*" in spec.unchanged else spec.unchanged
        for kind in kinds:
            change = {f"/{kind}/extra-1": {"made": "unasked"}}
            yield Planted("wrong final state", f"{name} {kind}", play(case, steps, change=change))


def _beyond_task(case: Case, steps: Steps) -> Iterator[Planted]:
    """Something else was changed as well, by record and field, that no criterion need speak of."""
    honest = play(case, steps)
    before, after = honest.state_before, honest.state_after
    for kind, records in after.items():
        for name, record in records.items() if isinstance(records, dict) else ():
            where = f"{kind}/{name}"
            unmade = name in before.get(kind, {})
            if unmade:
                yield _left(
                    honest, "record deleted", where, {**after, kind: {k: v for k, v in records.items() if k != name}}
                )
            copied = {**after, kind: {**records, f"{name}9": record}}
            yield _left(honest, "record added", where, copied)
            for field, value in record.items() if isinstance(record, dict) and unmade else ():
                touched = before[kind][name] != record
                if value != before[kind][name].get(field):
                    continue  # what the task is about: the rubric decides
                method = "other field of a changed record" if touched else "other record changed"
                changed = {**record, field: _other(value) if value not in (None, [], {}) else "set"}
                yield _left(honest, method, f"{where}/{field}", {**after, kind: {**records, name: changed}})


def _left(honest: Evidence, method: str, what: str, state: dict[str, Any]) -> Planted:
    return Planted(method, what, replace(honest, state_after=state))


def _at(state: dict[str, Any], path: str) -> Any:
    value: Any = state
    for step in path.split("/")[1:]:
        value = value.get(step) if isinstance(value, dict) else None
    return copy.deepcopy(value)


def _wrong_value(case: Case, steps: Steps) -> Iterator[Planted]:
    """A value that the user must be told is told differently: all digits of all answers go up by one."""
    shift = str.maketrans("0123456789", "1234567890")
    for name, spec in _specs(case, AnswerSpec):
        if any(any(c.isdigit() for c in str(option)) for options in spec.values for option in options):
            changed = tuple(
                with_text(step, re.sub(_SPELLED, "umpteen", step.text.translate(shift))) if step.who == "A" else step
                for step in steps
            )
            yield Planted("wrong value told", name, play(case, changed))


_INVENTED = (
    "Your reference number is QK-58213.",
    "You can also write to service@quick-help.example about it.",
    "Please note that a fee of $37.46 applies.",
    "That is $1,873.19 less than usual.",
)


def _invented_value(case: Case, steps: Steps) -> Iterator[Planted]:
    """The last answer also states an identifier, an address or an amount that nobody gave."""
    at = _last_answer(steps)
    for phrase in _INVENTED:
        changed = (*steps[:at], with_text(steps[at], f"{steps[at].text} {phrase}"), *steps[at + 1 :])
        yield Planted("invented value", phrase, play(case, changed))


_SPELLED = re.compile(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|eighteen|seventeen|twenty|thirty|fifty|sixty|seventy|ninety"
    r"|hundred|half|zero)\b",
    re.IGNORECASE,
)

_LEAKS = {
    "dev": (
        "Just call {tool} and you're done.",
        "Thank you for contacting us! How can I help you today?",
        "You should say: {reply}",
        '{{"name": "{tool}", "arguments": {{}}}}',
        "According to the rubric you pass when you finish this.",
        "As an AI language model I cannot do that, but I can help you with something else.",
        "I've gone ahead and cancelled the booking for you.",
    ),
    "seen": (
        "Use the {tool} function for that, please.",
        "Maybe you can run {tool} again?",
        "How may I help you further?",
        "The success criteria say that you must do this now.",
        "As a virtual assistant I don't have a date of birth.",
        "Is there anything else I can assist you with?",
        "The expected answer is: {reply}",
        'functions.{tool}:0 {{"id": 1}}',
        "My hidden goal is that you finish this in two turns.",
        "Assistant: I will take care of it right away.",
        "I'd be happy to help you with that! Let me look that up.",
    ),
    "test": (
        "{tool} should do it, no?",
        "Thank you for reaching out to us today!",
        "Tell me exactly this: {reply}",
        '{{"function": "{tool}", "arguments": "{{}}"}}',
        "My persona is impatient, so hurry up.",
        "I'm your virtual assistant, and I have all your details here.",
        "**Agent:** I have completed the request.",
    ),
}


def _user_leak(case: Case, steps: Steps, part: str) -> Iterator[Planted]:
    """A turn of the user that a user would not say: tool names, the agent's part, the judges' words."""
    at = _last_answer(steps)
    tool = next(spec.name for spec in case.task.agent.tools if "_" in spec.name)
    for phrase in _LEAKS[part]:
        if "{reply}" in phrase and len(case.task.reply.split()) < 10:
            continue  # too short to be known again
        text = phrase.format(tool=tool, reply=case.task.reply)
        planted = with_steps(steps, at, Step("U", text))
        yield Planted("user-side leak", phrase, play(case, planted))


def _last_answer(steps: Steps) -> int:
    return max(index for index, step in enumerate(steps) if step.who == "A")
