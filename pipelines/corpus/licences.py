"""Which licences a corpus takes in."""

from __future__ import annotations

from dataclasses import dataclass

from tokenmill.judges.corpus.saying import passed, refusal
from tokenmill.judges.corpus.words import Words
from tokenmill.pipelines.report.licenses import hub_license
from tokenmill.schemas.corpus import CorpusDocument
from tokenmill.schemas.verdicts import Verdict

CHECK = "license"
PERMISSIVE = frozenset({
    "apache-2.0", "mit", "bsd", "bsd-2-clause", "bsd-3-clause", "bsd-3-clause-clear", "isc", "zlib", "unlicense", "cc0-1.0",
    "wtfpl", "bsl-1.0", "ncsa", "postgresql", "artistic-2.0", "afl-3.0", "ecl-2.0", "ms-pl", "pddl", "cdla-permissive-1.0",
    "cdla-permissive-2.0", "etalab-2.0",
})  # fmt: skip
"""Public domain, and licences that ask for no more than their notice."""
ATTRIBUTION = frozenset({
    "cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0", "odc-by", "cc-by-sa-3.0", "cc-by-sa-4.0", "gfdl", "odbl", "c-uda",
})  # fmt: skip
"""Those that ask for attribution, or for the same licence."""
POLICIES = {"permissive": PERMISSIVE, "by": PERMISSIVE | ATTRIBUTION, "any": None}
"""By name, the licences taken; None for all, and for rows that state none."""


@dataclass(frozen=True)
class Licenses:
    """Refuses documents whose licence a policy does not take."""

    policy: str

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"no licence policy {self.policy!r}; there are {', '.join(POLICIES)}")

    def __call__(self, document: CorpusDocument, words: Words) -> Verdict:
        taken = POLICIES[self.policy]
        name = hub_license(document.license)
        if taken is None or name in taken:
            return passed(CHECK)
        if name in (None, "unknown"):
            stated = (
                f"{document.license[:80]!r} is no licence known here" if document.license else "no licence is stated"
            )
            return refusal(
                CHECK, "unknown_license", f"{stated}, and --licenses {self.policy} needs one", document.license
            )
        return refusal(
            CHECK, "license_not_taken", f"{name} is none of those of --licenses {self.policy}", document.license
        )
