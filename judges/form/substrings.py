"""Whether one of many short strings or simple patterns stands in a text: one pass, however many they are."""

from __future__ import annotations

from collections.abc import Iterable

import re2


class Hints:
    """Looks for all at once, in time linear in the text. Without a hint, dearer patterns need not be tried."""

    def __init__(self, literals: Iterable[str] = (), patterns: Iterable[str] = ()) -> None:
        """
        Args:
            literals: strings, to be found as they are.
            patterns: in the syntax of RE2; `\\w`, `\\d` and `\\s` are ASCII there.
        """
        self._pattern = re2.compile("|".join([*map(re2.escape, literals), *patterns]))

    def __call__(self, text: str) -> bool:
        try:
            return self._pattern.search(text) is not None
        except UnicodeEncodeError:  # half a surrogate pair
            return self._pattern.search(text.encode("utf-8", "replace").decode()) is not None
