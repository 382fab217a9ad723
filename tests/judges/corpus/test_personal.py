"""Personal data becomes placeholders; numbers of mathematics, code and versions stay."""

from __future__ import annotations

import pytest
from tokenmill.judges.corpus.personal import Personal

MASKED = {
    "Write to ada.l+x@mail.example.co.uk.": "Write to <EMAIL>.",
    "Hosts 8.8.8.8 and 2001:4860:4860::8888 answer.": "Hosts <IP> and <IP> answer.",
    "Call +44 20 7946 0958 or (212) 555-0187.": "Call <PHONE> or <PHONE>.",
    "Tel.: 030 1234567, fax 0800/1234567": "Tel.: <PHONE>, fax <PHONE>",
    "Dial 0049 30 1234567 or 212-555-0187 today": "Dial <PHONE> or <PHONE> today",
    "Card 4111 1111 1111 1111 or 378282246310005.": "Card <CARD> or <CARD>.",
    "IBAN DE89 3704 0044 0532 0130 00, GB29NWBK60161331926819": "IBAN <IBAN>, <IBAN>",
    "SSN: 123-45-6789": "SSN: <SSN>",
    "key AKIAIOSFODNN7EXAMPLE and ghp_abcdefghijklmnopqrstuvwxyz012345": "key <KEY> and <KEY>",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7x9\n-----END RSA PRIVATE KEY-----": "<KEY>",
}
KEPT = [
    "Version 1.2.3.4 of 10.0.0.1, v8.8.8.8, 192.168.1.1 and 127.0.0.1.",
    "std::io::Error at 12:30:45, a::b::c and fe80::1",
    "4111 1111 1111 1112 has a wrong check digit",
    "3 + 1234567890123 = 1234567890126 and x=+4915112345678",
    "1234567890 items, 555 123 4567 pieces, 123-45-6789",
    "DE89 3704 0044 0532 0130 01 is no account",
    "sk-xxxxxxxxxxxxxxxxxxxxxxxx is an example",
    "pi = 3.14159265358979323846, 0.1234567890123456",
    "commit 4f2a9c1b2d3e4f5a6b7c8d9e0f1a2b3c4d5e6f70, @decorator, a@b",
    "2024-01-31 12:00, ISBN 978-3-16-148410-0, 1,234,567,890",
]


@pytest.mark.parametrize("text", MASKED)
def test_what_is_personal_becomes_a_placeholder_of_its_kind(text):
    masked, counts = Personal()(text)
    assert masked == MASKED[text] and sum(counts.values()) == masked.count("<")


@pytest.mark.parametrize("text", KEPT)
def test_other_numbers_stay(text):
    assert Personal()(text) == (text, {})


def test_counts_are_by_kind():
    assert Personal()("a@b.org, c@d.org, +44 20 7946 0958")[1] == {"email": 2, "phone": 1}
