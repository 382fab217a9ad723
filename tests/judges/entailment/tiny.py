"""A cross-encoder with random weights: the real classes, and answers that mean nothing."""

from __future__ import annotations

from pathlib import Path

LABELS = ("contradiction", "entailment", "neutral")


def save(folder: Path, labels: tuple[str, ...] = LABELS, favoured: str = "") -> Path:
    """A model in `folder`; with `favoured` it gives that label to whatever it reads."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    folder.mkdir(parents=True, exist_ok=True)
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *".,?!", *(f"##{c}" for c in letters)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=128,
        id2label=dict(enumerate(labels)),
        label2id={label: place for place, label in enumerate(labels)},
    )
    torch.manual_seed(0)
    model = BertForSequenceClassification(config)
    if favoured:
        with torch.no_grad():
            model.classifier.bias[labels.index(favoured)] += 20
    model.save_pretrained(folder)
    BertTokenizerFast(vocab_file=str(folder / "vocab.txt")).save_pretrained(folder)
    return folder
