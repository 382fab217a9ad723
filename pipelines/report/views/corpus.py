"""Documents of a corpus, which people wrote, or other runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenmill.pipelines.report.tally import Survey
from tokenmill.pipelines.report.views.base import Stage, View

if TYPE_CHECKING:
    from huggingface_hub import DatasetCardData
    from tokenmill.schemas.manifest import Manifest


class CorpusView(View):
    """Rows that were found and filtered."""

    rows = "documents"
    facet = "Language"
    facets = (("language", "Kept by language"), ("license", "Kept by licence"))
    card = "corpus.md.j2"
    texts = ("text",)

    def funnel(self, manifest: Manifest, survey: Survey) -> list[Stage]:
        """By domain what was read, and what was kept of it."""
        domains = (manifest.corpus or {}).get("domains", {})
        stages: list[Stage] = []
        for domain, of in domains.items():
            stages += [(f"Read of {domain}", of["read"], "plain"), (f"Kept of {domain}", of["kept"], "kept")]
        return stages or super().funnel(manifest, survey)

    def describe(self, metadata: DatasetCardData, survey: Survey) -> None:
        """Most of it was found."""
        metadata.annotations_creators, metadata.language_creators = ["no-annotation"], ["found"]
        metadata["tags"] = ["pre-training", "tokenmill"]
