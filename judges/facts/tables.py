"""Word tables behind `judges.facts.extract`: number words, units, months, and which capitalised words are no names."""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache


def word_list(text: str) -> list[str]:
    """The words of a table, which are easier to read without quotation marks."""
    return text.split()


ONES = {
    w: i
    for i, w in enumerate(
        word_list(
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
            "seventeen eighteen nineteen"
        )
    )
}
TENS = {w: 10 * i for i, w in enumerate(word_list("twenty thirty forty fifty sixty seventy eighty ninety"), start=2)}
SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
SHORT_SCALES = {"bn": 10**9, "mn": 10**6, "k": 10**3, "m": 10**6, "b": 10**9}
"""Scale letters, read as such only directly after a number with a currency sign (`bn` and `mn` always)."""

ORDINALS = {
    w: i
    for i, w in enumerate(
        word_list(
            "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
            "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
        ),
        start=1,
    )
} | {w.replace("y", "ieth"): v for w, v in TENS.items()}
ORDINAL_SCALES = {w + "th": v for w, v in SCALES.items()}
NUMBER_WORDS = frozenset([*ONES, *TENS, *SCALES, *ORDINALS, *ORDINAL_SCALES, "dozen"])

IMPLIED = {
    "no": "0",
    "none": "0",
    "nil": "0",
    "without": "0",
    "undefeated": "0",
    "unbeaten": "0",
    "both": "2",
    "twice": "2",
    "pair": "2",
    "pairs": "2",
    "twos": "2",
    "threes": "3",
    "couples": "2",
    "couple": "2",
    "double": "2",
    "doubled": "2",
    "twin": "2",
    "twins": "2",
    "duo": "2",
    "latter": "2",
    "duet": "2",
    "twofold": "2",
    "triple": "3",
    "tripled": "3",
    "triplets": "3",
    "trio": "3",
    "thrice": "3",
    "treble": "3",
    "quartet": "4",
    "quadruple": "4",
    "quadrupled": "4",
    "quintet": "5",
    "fortnight": "14",
    "decade": "10",
    "once": "1",
    "single": "1",
    "sole": "1",
    "half": "2",
    "halves": "2",
}
"""Words that keep a number without naming it: "both" keeps "the two"."""

DECADES = {w[:-1] + "ies": f"{v}" for w, v in TENS.items()}
"""twenties -> "20", ... nineties -> "90"."""

ROMAN = {
    w: str(i)
    for i, w in enumerate(
        word_list("ii iii iv v vi vii viii ix x xi xii xiii xiv xv xvi xvii xviii xix xx xxi xxii xxiii"), start=2
    )
}

MONTHS = {
    w: i
    for i, w in enumerate(
        word_list("january february march april may june july august september october november december"), start=1
    )
}
MONTHS |= {w[:3]: i for w, i in MONTHS.items()} | {"sept": 9}

_UNITS = {
    "km": "km kilometre kilometres kilometer kilometers kms",
    "m": "m metre metres meter meters",
    "cm": "cm centimetre centimetres centimeter centimeters",
    "mm": "mm millimetre millimetres millimeter millimeters",
    "nm": "nm nanometre nanometres nanometer nanometers",
    "mi": "mi mile miles",
    "ft": "ft foot feet",
    "inch": "inch inches",
    "yd": "yd yds yard yards",
    "nmi": "nmi",
    "kg": "kg kilogram kilograms kilogramme kilogrammes kilo kilos",
    "g": "g gram grams gramme grammes",
    "mg": "mg milligram milligrams",
    "t": "t tonne tonnes ton tons",
    "lb": "lb lbs pound pounds pounder pounders",
    "oz": "oz ounce ounces",
    "ha": "ha hectare hectares",
    "acre": "acre acres",
    "l": "l litre litres liter liters",
    "ml": "ml millilitre millilitres milliliter milliliters",
    "gal": "gal gallon gallons",
    "km2": "km2 km²",
    "m2": "m2 m²",
    "mi2": "mi2 mi²",
    "m3": "m3 m³",
    "km/h": "kmh kph km/h",
    "mph": "mph mi/h",
    "kn": "kn knot knots",
    "s": "s sec secs second seconds",
    "min": "min mins minute minutes",
    "h": "h hr hrs hour hours",
    "d": "day days",
    "wk": "week weeks",
    "mo": "month months",
    "yr": "yr yrs year years",
    "decade": "decade decades",
    "century": "century centuries",
    "W": "w watt watts",
    "kW": "kw kilowatt kilowatts",
    "MW": "mw megawatt megawatts",
    "GW": "gw gigawatt gigawatts",
    "V": "v volt volts",
    "Hz": "hz hertz",
    "kHz": "khz kilohertz",
    "MHz": "mhz megahertz",
    "GHz": "ghz gigahertz",
    "kB": "kb kilobyte kilobytes",
    "MB": "mb megabyte megabytes",
    "GB": "gb gigabyte gigabytes",
    "TB": "tb terabyte terabytes",
    "%": "% percent pct percentage",
    "°C": "°c celsius",
    "°F": "°f fahrenheit",
    "K": "kelvin kelvins",
    "°": "° degree degrees",
    "$": "$ dollar dollars usd",
    "€": "€ euro euros eur",
    "£": "£ sterling gbp",
    "¥": "¥ yen jpy",
    "bc": "bc bce",
    "ad": "ad ce",
}
UNITS = {spelling: unit for unit, spellings in _UNITS.items() for spelling in spellings.split()}
LONG_UNITS = {
    ("per", "cent"): "%",
    ("nautical", "mi"): "nmi",
    ("metric", "t"): "t",
    ("long", "t"): "t",
    ("short", "t"): "t",
    **{(word, unit): f"{unit}2" for word in ("sq", "square") for unit in ("km", "m", "cm", "mm", "mi", "ft", "yd")},
    **{(word, unit): f"{unit}3" for word in ("cu", "cubic") for unit in ("km", "m", "cm", "mm", "mi", "ft", "yd")},
}
UNIT_PREFIXES = frozenset(first for first, _ in LONG_UNITS)
CASED_UNITS = frozenset(word_list("m g t l h s v w d"))
"""One-letter units, read as such only in lower case (`V` and `W` in upper case too)."""

SIZES: dict[str, tuple[str, float]] = {
    "km": ("length", 1000.0),
    "m": ("length", 1.0),
    "cm": ("length", 0.01),
    "mm": ("length", 0.001),
    "mi": ("length", 1609.344),
    "ft": ("length", 0.3048),
    "inch": ("length", 0.0254),
    "yd": ("length", 0.9144),
    "nmi": ("length", 1852.0),
    "kg": ("mass", 1.0),
    "g": ("mass", 0.001),
    "t": ("mass", 1000.0),
    "lb": ("mass", 0.45359237),
    "oz": ("mass", 0.028349523),
    "ha": ("area", 1e4),
    "acre": ("area", 4046.8564),
    "km2": ("area", 1e6),
    "m2": ("area", 1.0),
    "mi2": ("area", 2589988.1),
    "ft2": ("area", 0.09290304),
    "l": ("volume", 1.0),
    "gal": ("volume", 3.785411784),
    "km/h": ("speed", 1 / 3.6),
    "mph": ("speed", 0.44704),
    "kn": ("speed", 0.514444),
}
"""Dimension and size in SI units, for recognising "5 km (3.1 mi)" as one quantity given twice."""

CURRENCY_CODES = frozenset(
    word_list("usd eur gbp jpy php cad aud nzd chf inr cny rmb krw brl mxn zar sek nok dkk hkd sgd")
)
"""Codes that stand for a unit, not for a name."""

PARTICLES = frozenset(word_list("of the de la le du van von der den di da del dos al el bin ibn des les"))
ABBREVIATIONS = frozenset(
    word_list(
        "mr mrs ms dr st no nos gen col sgt lt capt maj vs jr sr prof rev hon gov sen rep cf c ca inc ltd co mt ft "
        "fig eq vol pp ed adm cmdr messrs"
    )
)
LABELS = frozenset(
    word_list(
        "q a question answer step part chapter section fact point event item scene act lesson unit note key day "
        "paragraph example figure table exercise tip reason turn slide phase stage topic segment episode idea lesson rule "
        "item case problem task round module section exhibit act timeline recap takeaway overview summary faq intro outro"
    )
)
"""Words that number a rewrite's own structure at the beginning of a line: "Step 3", "Question 2"."""

ADDRESSES = frozenset(
    word_list("mom mum mommy mummy dad daddy grandma grandpa granny professor teacher captain madam folks")
)
"""Words with which the people of a dialogue address each other."""

FUNCTION_WORDS = frozenset(
    word_list(
        "the a an in on at of for from to by with and or but nor so yet as if when while where who whom whose "
        "which that this these those there here then thus it its he his him she her they their them we our us you "
        "your i my me is are was were be been being has had have do does did can could will would shall should may "
        "might must not no yes after before during since until because although though however meanwhile later "
        "also both each every all some many most much more few several other another such only just even still "
        "already once twice again finally next first second third last now today over under between among against "
        "into onto upon about above below within without through despite unlike like per via how why what let mr "
        "mrs ms miss sir dr dear ok okay well "
        # what is left of "didn't", "we'll", "they've", "you're" once they are split
        "didn isn wasn couldn doesn haven hasn hadn wouldn shouldn aren weren ain mustn needn ll ve re"
    )
)

_DEMONYMS = """
saint st; mount mt; france french frenchman frenchmen; germany german; britain british briton britons uk;
england english englishman
englishmen; spain spanish spaniard spaniards; netherlands dutch holland dutchman; greece greek; turkey turkish turk;
poland polish pole poles; denmark danish dane; sweden swedish swede; norway norwegian; finland finnish finn;
switzerland swiss; ireland irish irishman; scotland scottish scots scot; wales welsh welshman; iceland icelandic;
portugal portuguese; japan japanese; china chinese; thailand thai; philippines filipino philippine; iraq iraqi;
israel israeli; pakistan pakistani; afghanistan afghan; argentina argentine argentinian; venezuela venezuelan;
usa us american america americans; york yorker; zealand zealander; peru peruvian; congo congolese; lebanon lebanese;
vietnam vietnamese; malaysia malaysian; belgium belgian belgians; russia russian; soviet soviets ussr; cyprus cypriot;
judaism jew jews jewish; naples neapolitan; venice venetian; florence florentine; athens athenian; london londoner;
monaco monegasque; luxembourg luxembourgish; czechia czech; slovakia slovak; croatia croatian croat; serbia serb
serbian; kosovo kosovar; yemen yemeni; oman omani; kuwait kuwaiti; qatar qatari; bahrain bahraini; saudi saudis;
wallonia walloon; flanders flemish; normandy norman normans; burgundy burgundian; rome roman romans; canada canadian;
australia australian; brazil brazilian; india indian; italy italian; mexico mexican; egypt egyptian; iran iranian;
korea korean; kenya kenyan; chile chilean; colombia colombian; cuba cuban; ukraine ukrainian; austria austrian;
hungary hungarian; africa african; europe european; asia asian; morocco moroccan; syria syrian; jordan jordanian;
bavaria bavarian; sicily sicilian;
uae emirati emiratis emirates; myanmar burma burmese; madagascar malagasy; laos lao laotian; ivory ivorian;
nepal nepali nepalese; lanka lankan; togo togolese; niger nigerien; swaziland swazi eswatini; lesotho basotho;
barbados barbadian bajan; bahamas bahamian; slovenia slovene slovenian; bosnia bosnian bosniak; tajikistan tajik;
kazakhstan kazakh; uzbekistan uzbek; turkmenistan turkmen; kyrgyzstan kyrgyz; monaco monacan; islam islamic muslim
muslims; byzantium byzantine byzantines; castile castilian; catalonia catalan catalans; basque basques; brittany breton
bretons; prussia prussian; saxony saxon saxons; hesse hessian; tuscany tuscan; lombardy lombard; carthage carthaginian;
troy trojan trojans; crete cretan; sparta spartan; thebes theban; moscow muscovite; glasgow glaswegian; liverpool
liverpudlian; manchester mancunian; france franco; britain anglo; china sino; japan nippon; india indo; russia russo;
austria austro; greece greco graeco hellenic; italy italo; portugal luso; spain hispano; africa afro; allies allied
"""
_ALIASES = {word: group.split()[0] for group in _DEMONYMS.split(";") for word in group.split()}
_SUFFIXES = (
    "ships",
    "ship",
    "erners",
    "ern",
    "als",
    "al",
    "ists",
    "ist",
    "ism",
    "ians",
    "us",
    "ian",
    "eans",
    "ean",
    "ans",
    "an",
    "ese",
    "ish",
    "ic",
    "ia",
    "er",
    "es",
    "s",
    "a",
    "y",
    "e",
    "o",
    "i",
)


_LETTERS = str.maketrans({"ø": "o", "ł": "l", "ß": "ss", "æ": "ae", "œ": "oe", "đ": "d", "ð": "d", "þ": "th", "ı": "i"})


_BRITISH = re.compile(r"is(?=ations?$|ational$|e[ds]?$|ing$)")
"""The one spelling difference that names of organisations often have."""


def unaccented(word: str) -> str:
    """A lower-cased word in plain letters, as many write it: "čapek" gives "capek"."""
    letters = unicodedata.normalize("NFKD", word.translate(_LETTERS))
    return "".join([c for c in letters if not unicodedata.combining(c)])


@lru_cache(maxsize=1 << 15)
def stem(word: str) -> str:
    """A form that words of one root share ("Chad" and "Chadian"), of at least four letters, without accents."""
    if not word.isascii():
        word = unaccented(word)
    if len(word) > 6:
        word = _BRITISH.sub("iz", word)
    shorter = True
    while shorter:
        shorter = False
        for suffix in _SUFFIXES:
            if word.endswith(suffix) and len(word) - len(suffix) >= 4:
                word, shorter = word[: -len(suffix)], True
                break
    return word


def name_stem(word: str) -> str:
    """As `stem`, for words of names, where irregular forms are known too ("French" and "France")."""
    return _ALIASES.get(word) or _ALIASES.get(word.removesuffix("s")) or stem(word)


_HISSING = ("ses", "xes", "zes", "ches", "shes", "oes")
"""Ends of inflected words whose "-es" comes off whole; elsewhere only the "s" does, or "Mendes" would be of "mend"."""


@cache
def _dictionary() -> frozenset[str]:
    from english_words import get_english_words_set

    return frozenset(word for word in get_english_words_set(["web2"]) if word.islower())


@lru_cache(maxsize=1 << 15)
def ordinary(word: str) -> bool:
    """Whether a lower-cased word is in the dictionary as a common word, itself or less an inflection."""
    if word in FUNCTION_WORDS or word in LABELS:
        return True
    if word in _ALIASES:
        return False
    words = _dictionary()
    if word in words or (word.endswith(_HISSING) and word[:-2] in words):
        return True
    for ending, replacements in (
        ("ies", ("y",)),
        ("s", ("",)),
        ("ied", ("y",)),
        ("ed", ("", "e")),
        ("ing", ("", "e")),
        ("ers", ("", "e", "er")),
        ("ier", ("y",)),
        ("iest", ("y",)),
        ("er", ("", "e")),
        ("est", ("", "e")),
        ("ly", ("",)),
    ):
        if word.endswith(ending):
            base = word[: -len(ending)]
            if len(base) >= 2 and any(base + r in words for r in replacements):
                return True
            if len(base) >= 4 and base[-1] == base[-2] and base[:-1] in words:
                return True
    return word in {"internet", "website", "online", "email", "webpage", "smartphone", "software", "blog"}
