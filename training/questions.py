"""What a model knows: exact match of its own answers, and the likelihood of the right one among alternatives."""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenmill.training.data.packing import PADDING
from tokenmill.training.data.rows import InputError
from tokenmill.training.model import Model, generate
from tokenmill.training.tokenizer import Tokenizer
from torch import Tensor

PROMPT = "Question: {question}\nAnswer:"
"""Also the form in which a background corpus can teach a model to answer: followed by a space and the answer."""
AT_ONCE = 64


@dataclass(frozen=True)
class Question:
    question: str
    answer: str
    alternatives: tuple[str, ...]
    """Wrong answers of the same kind; guessing is right once in len(alternatives) + 1."""
    source_id: str | None = None
    """Document that holds the answer."""


@dataclass(frozen=True)
class Score:
    """Over all questions."""

    exact_match: float
    choice_accuracy: float
    """Share of questions where the right answer is likelier than every alternative."""
    answer_loss: float
    """Mean nats a right answer, its end included."""


def read_questions(path: Path) -> list[Question]:
    """JSON lines: `question`, `answer`, `alternatives` (a list), optionally `source_id`. Raises `InputError`."""
    questions = []
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            question = Question(row["question"], row["answer"], tuple(row["alternatives"]), row.get("source_id"))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}, line {number}: needs question, answer and alternatives ({error})") from None
        if not question.alternatives or question.answer in question.alternatives:
            raise InputError(f"{path}, line {number}: give alternatives, and the answer not among them")
        questions.append(question)
    if not questions:
        raise InputError(f"{path}: holds no questions")
    return questions


@torch.no_grad()
def score(model: Model, tokenizer: Tokenizer, questions: Sequence[Question]) -> Score:
    """Ask everything, greedily and by likelihood."""
    was_training = model.training
    model.eval()
    prompts = [[tokenizer.bos, *tokenizer.encode(PROMPT.format(question=q.question))] for q in questions]
    given = _answers(model, tokenizer, prompts, questions)
    exact = sum(normalized(text) == normalized(q.answer) for text, q in zip(given, questions, strict=True))
    pairs, owners = [], []
    for index, question in enumerate(questions):
        for candidate in (question.answer, *question.alternatives):
            pairs.append((prompts[index], [*tokenizer.encode(f" {candidate}"), tokenizer.eos]))
            owners.append(index)
    likelihoods: list[list[float]] = [[] for _ in questions]
    for owner, value in zip(owners, log_likelihoods(model, pairs), strict=True):
        likelihoods[owner].append(value)
    model.train(was_training)
    right = sum(values[0] > max(values[1:]) for values in likelihoods)
    loss = -sum(values[0] for values in likelihoods) / len(questions)
    return Score(exact / len(questions), right / len(questions), loss)


def _answers(model: Model, tokenizer: Tokenizer, prompts: list[list[int]], questions: Sequence[Question]) -> list[str]:
    longest = max(len(tokenizer.encode(f" {q.answer}")) for q in questions) + 2
    stop = [tokenizer.eos]
    texts = []
    for at in range(0, len(prompts), AT_ONCE):
        made = generate(model, prompts[at : at + AT_ONCE], longest, stop=stop)
        texts += [tokenizer.decode([t for t in one if t < len(tokenizer)], skip_special_tokens=True) for one in made]
    return texts


def log_likelihoods(model: Model, pairs: Sequence[tuple[list[int], list[int]]]) -> list[float]:
    """Log-probability of each continuation behind its prompt, in nats."""
    device = model.embed_tokens.weight.device
    values = []
    for at in range(0, len(pairs), AT_ONCE):
        part = pairs[at : at + AT_ONCE]
        longest = max(len(prompt) + len(rest) for prompt, rest in part)
        tokens = torch.zeros(len(part), longest, dtype=torch.int64)
        ids = torch.full_like(tokens, PADDING)
        counted = torch.zeros(len(part), longest - 1, dtype=torch.bool)
        for row, (prompt, rest) in enumerate(part):
            end = len(prompt) + len(rest)
            tokens[row, :end] = torch.tensor(prompt + rest)
            ids[row, :end] = 0
            counted[row, len(prompt) - 1 : end - 1] = True
        values += _sums(model, tokens.to(device), ids.to(device), counted.to(device)).tolist()
    return values


def _sums(model: Model, tokens: Tensor, ids: Tensor, counted: Tensor) -> Tensor:
    logits = model(tokens[:, :-1], document_ids=ids[:, :-1]).logits.float()
    losses = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")
    return -(losses * counted).sum(dim=1)


def normalized(text: str) -> str:
    """First line, without case, punctuation and surplus blanks."""
    lines = text.strip().splitlines()
    bare = (lines[0] if lines else "").casefold().translate(str.maketrans("", "", string.punctuation))
    return " ".join(bare.split())
