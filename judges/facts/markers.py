"""Words that carry the extent and certainty of a statement: negations, hedges and quantifiers, in the languages read.

Their loss turns "may have been" into "was" and "most of the men" into "the men". Which sentence answers which is guessed by
shared words, so what is found here is only ever a question to the judge.
"""

from __future__ import annotations

import re
from functools import lru_cache

# An underscore stands for the space within a marker.
_WORDS = {
    "negation": {
        "en": "not no never none neither nor cannot without nobody nothing n't fail failed fails refuse refused "
        "unable lack lacks "
        "lacked rather instead except hardly un(?!der|til|it|ion|ivers|iqu)\\w{3,} in\\w+able",
        "de": "nicht kein\\w* nie niemals niemand nichts ohne weder un(?!d|ter|ser|s$|ternehm)\\w{3,}",
        "fr": "pas ne n aucun\\w* jamais rien sans ni personne",
        "es": "no ni nunca jamás nada sin ningún ninguna ninguno tampoco nadie",
        "ru": "не нет ни никогда никто ничего без нельзя не\\w{5,}",
        "zh": "不 没 未 无 非 别 莫 勿 否",
        "ja": "ない なかっ ず ません ぬ 不 無 未 非",
        "ko": "않 안 못 없 아니 지\\s?말 불 비 미 무",
    },
    "hedge": {
        "en": "may(?!,?\\s\\d) might could perhaps possibly probably likely unlikely seems? seemed appears? "
        "appeared apparently allegedly reportedly reported suggests? suggested believed thought "
        "considered estimated roughly about approximately suspected presumably said claims? claimed "
        "according argued uncertain unclear assumed rumou?red can suspects? thinks? guess\\w* "
        "potential\\w* doubt\\w*",
        "de": "vielleicht möglicherweise wohl wahrscheinlich vermutlich könnte\\w* dürfte\\w* soll sollen angeblich offenbar "
        "mutmaßlich anscheinend scheint schien kann können etwa laut zufolge vermut\\w+ nimmt_an",
        "fr": "peut peut-être pourrait pourraient probablement sans_doute semble semblait serait seraient aurait auraient "
        "selon apparemment possible vraisemblablement environ estim\\w+ suppos\\w+",
        "es": "quizá quizás tal_vez posiblemente probablemente podría podrían puede pueden parece parecía según habría habrían "
        "aparentemente unos supuest\\w+ cree creen estima\\w*",
        "ru": "возможно вероятно может могут видимо кажется якобы предположительно наверное около примерно по-видимому считается "
        "предполага\\w+ полага\\w+",
        "zh": "可能 也许 或许 大概 似乎 据说 据称 据 约 估计 认为 疑 恐怕 推测 或",
        "ja": "かもしれ おそらく 恐らく とみられ とされ らしい ようだ ようで だろう でしょう 推定 可能性 約 "
        "思われ 考えられ 見込み という",
        "ko": "것으로 듯 아마 수_있 가능성 추정 것_같 보인다 보이 약 모른다 모르 예상 전해 알려",
    },
    "quantifier": {
        "en": "some most many several few one_of at_least at_most up_to more_than fewer_than less_than almost nearly only "
        "all every mainly mostly largely partly usually often sometimes generally majority minority part among no_more each any "
        "either both everyone everything entire whole rarely seldom typically",
        "de": "einige einiger manche\\w* meist\\w* viele\\w* mehrere\\w* wenige\\w* mindestens höchstens bis_zu "
        "mehr_als weniger_als "
        "fast nur alle\\w* jede\\w* teilweise überwiegend oft manchmal mehrheit großteil kaum gelegentlich ein_teil",
        "fr": "certain\\w* plupart plusieurs quelques au_moins au_plus jusqu plus_de moins_de presque seulement "
        "tous toutes chaque "
        "majorité partie souvent parfois surtout généralement un_des une_des l'un",
        "es": "algun\\w* mayoría mayor_parte varios varias pocos al_menos como_máximo hasta más_de menos_de casi solo sólo todos "
        "todas cada parte a_veces generalmente uno_de una_de",
        "ru": "некоторы\\w+ большинств\\w+ многие многих несколько немног\\w+ не_менее не_более до более менее "
        "почти только все всех "
        "каждый часть часто иногда обычно один_из одна_из одним_из хотя_бы минимум максимум",
        "zh": "一些 部分 大多 多数 许多 几 至少 最多 超过 以上 以下 不到 近 仅 只 全部 所有 每 之一 通常 有时 常 约 都 不足",
        "ja": "一部 多く ほとんど 大半 大部分 いくつ 数 少なくとも 最大 以上 以下 未満 だけ のみ すべて 全て 各 "
        "一つ ひとつ 通常 時に よく しか",
        "ko": "일부 대부분 많은 여러 몇 적어도 최소 최대 이상 이하 미만 거의 만 오직 모든 모두 각 중 하나 가운데 "
        "보통 때로 가끔 자주",
    },
}
CLASSES = tuple(_WORDS)


@lru_cache(maxsize=64)
def _pattern(kind: str, language: str) -> re.Pattern[str] | None:
    words = _WORDS[kind].get(language)
    if words is None:
        return None
    parts = [part.replace("_", r"\s+") for part in words.split()]
    if language in ("zh", "ja", "ko"):
        return re.compile("|".join(parts))
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts)})(?!\w)|n['’]t\b", re.IGNORECASE)


def present(text: str, language: str) -> frozenset[str]:
    """The kinds of markers that a text has."""
    return frozenset(kind for kind in CLASSES if (p := _pattern(kind, language[:2])) is not None and p.search(text))


def first(text: str, kind: str, language: str) -> tuple[int, int]:
    """Where the first marker of a kind stands.

    Raises:
        ValueError: there is none.
    """
    pattern = _pattern(kind, language[:2])
    found = pattern.search(text) if pattern else None
    if found is None:
        raise ValueError(f"no {kind} in {text[:80]!r}")
    return found.span()
