import pytest
from tokenmill.judges.structure.check import Structure

SOURCE = """# Setting up

Unpack the archive.

## Linux

Run the script:

```sh
./install.sh
```

## Windows

Start the program."""


def judge(rewrite, source=SOURCE, title="", **config):
    return Structure(**config)(source, rewrite, title)


def test_headings_in_other_words_and_in_bold_are_kept():
    kept = (
        "## Getting ready\n\nFirst unpack.\n\n**On Linux.** Run it:\n\n```sh\n./install.sh\n```\n\nOn Windows start it."
    )
    verdict = judge(kept)
    assert verdict.passed and verdict.score == 0.6667


def test_running_text_in_their_place_is_refused_and_says_which():
    verdict = judge("First unpack. Then on Linux run this:\n\n```\n./install.sh\n```\n\nOn Windows start it.")
    assert verdict.reason == "headings_lost" and verdict.score == 0
    assert [finding.source for finding in verdict.findings] == ["Setting up", "Linux", "Windows"]
    assert 'under "Linux"' in verdict.findings[1].detail


def test_a_lost_block_of_code_is_refused():
    verdict = judge("# A\n\n## B\n\nRun ./install.sh.\n\n## C\n\nStart.")
    assert verdict.reason == "code_block_lost" and verdict.findings[0].source == "./install.sh"


def test_a_hash_in_code_is_no_heading_and_the_title_need_not_come_again():
    assert judge("Run it:\n\n```\n# note\nls\n```", source="```\n# note\nls\n```").score == 1
    assert judge("The mill grinds.", source="# The Mill\n\nIt grinds.", title="The mill").passed
    assert not judge("The mill grinds.", source="# The Mill\n\nIt grinds.", title="Mills").passed


def test_headings_of_wikis_and_underlined_ones_count():
    assert not judge("It grew.", source="== History ==\n\nIt grew.").passed
    assert judge("The past\n--------\n\nIt grew.", source="== History ==\n\nIt grew.").passed


def test_a_source_without_structure_asks_for_none():
    assert judge("It grinds corn.", source="The mill grinds corn = daily bread.").score == 1


def test_configuration_is_checked():
    with pytest.raises(ValueError, match=r"Structure\.kept"):
        Structure(kept=2)
