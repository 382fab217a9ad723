"""Licences as inputs spell them, mapped to the identifiers that the Hub accepts in a dataset card."""

from __future__ import annotations

import re
from typing import Any

from tokenmill.pipelines.report.formatting import by_count, one_line

# https://huggingface.co/docs/hub/repositories-licenses
_IDENTIFIERS = """
apache-2.0 mit openrail bigscience-openrail-m creativeml-openrail-m bigscience-bloom-rail-1.0 bigcode-openrail-m
afl-3.0 artistic-2.0 bsl-1.0 bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear c-uda cc cc0-1.0 cc-by-2.0 cc-by-2.5
cc-by-3.0 cc-by-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nd-4.0 cc-by-nc-nd-3.0
cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cdla-sharing-1.0 cdla-permissive-1.0
cdla-permissive-2.0 wtfpl ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 agpl-3.0 gfdl gpl gpl-2.0 gpl-3.0 lgpl
lgpl-2.1 lgpl-3.0 isc lppl-1.3c ms-pl mpl-2.0 odc-by odbl openrail++ osl-3.0 postgresql ofl-1.1 ncsa unlicense zlib
pddl lgpl-lr deepfloyd-if-license llama2 gemma unknown other
"""
HUB_LICENSES = frozenset(_IDENTIFIERS.split())

_SPELLINGS = """
none=unknown not-stated=unknown apache=apache-2.0 apache2=apache-2.0 apache2.0=apache-2.0 cc0=cc0-1.0 cc-zero=cc0-1.0
public-domain-dedication=cc0-1.0 odc-by-1.0=odc-by odbl-1.0=odbl pddl-1.0=pddl bsd-2=bsd-2-clause bsd-3=bsd-3-clause 0bsd=bsd
gplv2=gpl-2.0 gplv3=gpl-3.0 agplv3=agpl-3.0 lgplv3=lgpl-3.0 gfdl-1.2=gfdl gfdl-1.3=gfdl
"""
_ALIASES = {"": "unknown", **dict(pair.split("=") for pair in _SPELLINGS.split())}

# Long names, after which only the version and the clauses are looked for.
_SPELT_OUT = (
    (re.compile(r"creative[ -]?commons"), "cc"),
    (re.compile(r"attribution"), "by"),
    (re.compile(r"non[ -]?commercial"), "nc"),
    (re.compile(r"no[ -]?deriv\w*"), "nd"),
    (re.compile(r"share[ -]?alike"), "sa"),
)
_CC_URL = re.compile(r"creativecommons\.org/(?:licenses|publicdomain)/([a-z-]+)/(\d(?:\.\d)?)")
_CC = re.compile(r"^cc[ -]?(by(?:[ -](?:nc|nd|sa))*)[ -]?v?(\d(?:\.\d)?)?$")


_OBLIGATIONS = {
    "by": "Attribution is required: `source_id` and `source_file` name the source of every row.",
    "sa": "Share-alike licences ask that adaptations, which rewritten rows are, carry the same licence.",
    "nc": "Some rows come from sources that forbid commercial use.",
    "nd": "Some rows come from sources that forbid sharing adaptations: rewritten, they must not be published.",
    "unknown": "For some rows the input states no licence: clear their use before you share them.",
}


def hub_license(stated: str) -> str | None:
    """The Hub's identifier for a licence as an input states it, `unknown` when none is stated, None when the Hub has
    no identifier for it.

    A Creative Commons licence without a version is not given one: the versions differ, and guessing would misstate it.
    """
    text = stated.strip().lower()
    url = _CC_URL.search(text)
    if url:
        kind, version = url[1], url[2] if "." in url[2] else f"{url[2]}.0"
        text = f"cc0-{version}" if kind == "zero" else f"cc-{kind}-{version}"
    slug = re.sub(r"[\s_]+", "-", text)
    slug = re.sub(r"^(the-)|(-license|-licence)(?=-|$)|-(international|unported|generic)$", "", slug)
    slug = re.sub(r"-(?:version-|v)(?=\d)", "-", slug)
    slug = re.sub(r"-(?:only|or-later)$", "", slug)
    if slug in _ALIASES:
        return _ALIASES[slug]
    if slug in HUB_LICENSES:
        return slug
    words = text
    for pattern, short in _SPELT_OUT:
        words = pattern.sub(short, words)
    words = re.sub(r"[\s/,_-]+", "-", re.sub(r"\b(?:license|licence|international|unported|version)\b", " ", words))
    cc = _CC.match(words.strip("-"))
    if cc:
        clauses = cc[1].replace(" ", "-")
        if cc[2]:
            version = cc[2] if "." in cc[2] else f"{cc[2]}.0"
            # Clause order on the Hub: by, nc, nd or sa.
            order = [c for c in ("by", "nc", "nd", "sa") if c in clauses.split("-")]
            name = f"cc-{'-'.join(order)}-{version}"
            return name if name in HUB_LICENSES else None
    return None


def license_metadata(counts: dict[str, int]) -> dict[str, Any]:
    """What the card's front matter says of the licences of rows (`counts`: licence as stated to rows): `license`, one or
    several; `license_name` where that is `other`; and, where there are several or `other`, `license_details`."""
    if not counts:
        return {"license": "unknown"}
    by_rows = by_count(counts)
    mapped = list(dict.fromkeys(hub_license(stated) or "other" for stated, _ in by_rows))
    details = "; ".join(f"{_shown(stated)}: {rows:,} row{'s' if rows != 1 else ''}" for stated, rows in by_rows[:20])
    if "other" in mapped:
        name = _slug(by_rows[0][0]) if len(by_rows) == 1 else "several-licenses"
        return {"license": "other", "license_name": name, "license_details": one_line(details, 2000)}
    if len(mapped) == 1:
        return {"license": mapped[0]}
    return {"license": mapped, "license_details": one_line(details, 2000)}


def obligations(counts: dict[str, int]) -> list[str]:
    """What the licences among `counts` ask of whoever uses the rows; a reading aid, no legal advice."""
    names = {hub_license(stated) or stated.strip().lower() for stated in counts}
    families = [set(re.split(r"[^a-z0-9]+", name)) for name in names]
    clauses = {"unknown"} & names
    clauses.update(*(family for family in families if family & {"cc", "odc"}))
    return [note for clause, note in _OBLIGATIONS.items() if clause in clauses]


def _shown(stated: str) -> str:
    return " ".join(stated.split())[:80] or "not stated"


def _slug(stated: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", stated.lower()).strip("-.")[:60] or "custom"
