"""Units and currencies as languages write them, from CLDR (by babel), and how much of a base unit each is."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from tokenmill.judges.math.lexicon import vocabulary

_YEAR = 365.25 * 86400


class Unit(NamedTuple):
    """What a number is a number of: two units of one `dimension` convert by their factors."""

    dimension: str
    factor: float
    offset: float = 0.0


UNITS: dict[str, Unit] = {
    "length-kilometer": Unit("length", 1000), "length-meter": Unit("length", 1), "length-centimeter": Unit("length", 0.01),
    "length-decimeter": Unit("length", 0.1), "length-millimeter": Unit("length", 1e-3),
    "length-micrometer": Unit("length", 1e-6), "length-nanometer": Unit("length", 1e-9),
    "length-mile": Unit("length", 1609.344), "length-yard": Unit("length", 0.9144), "length-foot": Unit("length", 0.3048),
    "length-inch": Unit("length", 0.0254), "length-nautical-mile": Unit("length", 1852),
    "length-light-year": Unit("length", 9.4607e15), "length-furlong": Unit("length", 201.168),
    "length-fathom": Unit("length", 1.8288),
    "area-square-kilometer": Unit("area", 1e6), "area-hectare": Unit("area", 1e4), "area-square-meter": Unit("area", 1),
    "area-square-centimeter": Unit("area", 1e-4), "area-square-mile": Unit("area", 2589988.11),
    "area-acre": Unit("area", 4046.856), "area-square-foot": Unit("area", 0.09290304),
    "area-square-yard": Unit("area", 0.83612736), "area-square-inch": Unit("area", 6.4516e-4),
    "volume-liter": Unit("volume", 1), "volume-milliliter": Unit("volume", 1e-3), "volume-centiliter": Unit("volume", 0.01),
    "volume-deciliter": Unit("volume", 0.1), "volume-hectoliter": Unit("volume", 100),
    "volume-cubic-meter": Unit("volume", 1000), "volume-cubic-centimeter": Unit("volume", 1e-3),
    "volume-cubic-kilometer": Unit("volume", 1e12), "volume-cubic-foot": Unit("volume", 28.316847),
    "volume-gallon": Unit("volume", 3.785412), "volume-pint": Unit("volume", 0.473176),
    "volume-quart": Unit("volume", 0.946353), "volume-cup": Unit("volume", 0.236588),
    "volume-tablespoon": Unit("volume", 0.0147868), "volume-teaspoon": Unit("volume", 0.00492892),
    "volume-fluid-ounce": Unit("volume", 0.0295735), "volume-barrel": Unit("volume", 158.987),
    "volume-pinch": Unit("volume", 3.08e-4),
    "mass-tonne": Unit("mass", 1000), "mass-kilogram": Unit("mass", 1), "mass-gram": Unit("mass", 1e-3),
    "mass-milligram": Unit("mass", 1e-6), "mass-microgram": Unit("mass", 1e-9), "mass-pound": Unit("mass", 0.45359237),
    "mass-ounce": Unit("mass", 0.02834952), "mass-ton": Unit("mass", 907.18474), "mass-stone": Unit("mass", 6.35029),
    "duration-second": Unit("duration", 1), "duration-minute": Unit("duration", 60), "duration-hour": Unit("duration", 3600),
    "duration-day": Unit("duration", 86400), "duration-week": Unit("duration", 604800),
    "duration-month": Unit("duration", _YEAR / 12), "duration-year": Unit("duration", _YEAR),
    "duration-quarter": Unit("duration", _YEAR / 4), "duration-decade": Unit("duration", 10 * _YEAR),
    "duration-century": Unit("duration", 100 * _YEAR), "duration-millisecond": Unit("duration", 1e-3),
    "duration-microsecond": Unit("duration", 1e-6), "duration-nanosecond": Unit("duration", 1e-9),
    "speed-kilometer-per-hour": Unit("speed", 1 / 3.6), "speed-meter-per-second": Unit("speed", 1),
    "speed-mile-per-hour": Unit("speed", 0.44704), "speed-knot": Unit("speed", 0.514444),
    "temperature-celsius": Unit("temperature", 1), "temperature-fahrenheit": Unit("temperature", 5 / 9, -32 * 5 / 9),
    "temperature-kelvin": Unit("temperature", 1, -273.15),
    "pressure-bar": Unit("pressure", 1e5), "pressure-millibar": Unit("pressure", 100),
    "pressure-hectopascal": Unit("pressure", 100), "pressure-pascal": Unit("pressure", 1),
    "pressure-kilopascal": Unit("pressure", 1000), "pressure-megapascal": Unit("pressure", 1e6),
    "pressure-atmosphere": Unit("pressure", 101325), "pressure-pound-force-per-square-inch": Unit("pressure", 6894.757),
    "pressure-millimeter-ofhg": Unit("pressure", 133.322),
    "power-watt": Unit("power", 1), "power-kilowatt": Unit("power", 1000), "power-megawatt": Unit("power", 1e6),
    "power-gigawatt": Unit("power", 1e9), "power-horsepower": Unit("power", 745.7), "power-milliwatt": Unit("power", 1e-3),
    "energy-joule": Unit("energy", 1), "energy-kilojoule": Unit("energy", 1000), 
    "energy-kilocalorie": Unit("energy", 4184), "energy-kilowatt-hour": Unit("energy", 3.6e6),
    "frequency-hertz": Unit("frequency", 1), "frequency-kilohertz": Unit("frequency", 1e3),
    "frequency-megahertz": Unit("frequency", 1e6), "frequency-gigahertz": Unit("frequency", 1e9),
    "electric-volt": Unit("voltage", 1), "electric-ampere": Unit("current", 1), "electric-milliampere": Unit("current", 1e-3),
    "electric-ohm": Unit("resistance", 1),
    "digital-bit": Unit("data", 1), "digital-byte": Unit("data", 8), "digital-kilobyte": Unit("data", 8e3),
    "digital-megabyte": Unit("data", 8e6), "digital-gigabyte": Unit("data", 8e9), "digital-terabyte": Unit("data", 8e12),
    "digital-kilobit": Unit("data", 1e3), "digital-megabit": Unit("data", 1e6), "digital-gigabit": Unit("data", 1e9),
    "concentr-percent": Unit("share", 0.01), "concentr-permille": Unit("share", 0.001),
}  # fmt: skip
"""Factors of CLDR's units: to metre, square metre, litre, kilogram, second, metre a second, degree Celsius, ..."""

CURRENCIES = vocabulary(
    "USD EUR GBP JPY CNY AUD CAD CHF HKD NZD SEK NOK DKK KRW INR RUB BRL MXN ZAR TRY PLN CZK HUF ILS SGD THB"
)
_SYMBOLS = {
    "US$": "USD", "A$": "AUD", "AU$": "AUD", "C$": "CAD", "CA$": "CAD", "HK$": "HKD", "NZ$": "NZD", "R$": "BRL", "S$": "SGD",
    "$": "dollar", "€": "EUR", "£": "GBP", "¥": "JPY", "￥": "JPY", "₩": "KRW", "₽": "RUB", "₹": "INR", "₤": "GBP",
    "dollar": "dollar", "dollars": "dollar", "buck": "dollar", "bucks": "dollar", "pound": "GBP", "pounds": "GBP",
    "Dollar": "dollar", "dólar": "dollar", "dólares": "dollar", "доллар": "dollar", "доллара": "dollar",
    "долларов": "dollar", "美元": "USD", "ドル": "dollar", "달러": "dollar", "franc": "franc", "francs": "franc",
    "Franken": "CHF", "euro": "EUR", "euros": "EUR", "Euro": "EUR", "евро": "EUR", "欧元": "EUR", "ユーロ": "EUR", "유로": "EUR",
    "rouble": "RUB", "roubles": "RUB", "ruble": "RUB", "rubles": "RUB", "рубль": "RUB", "рубля": "RUB", "рублей": "RUB",
    "元": "CNY", "人民币": "CNY", "円": "JPY", "日元": "JPY", "원": "KRW", "엔": "JPY", "yen": "JPY", "yuan": "CNY",
}  # fmt: skip
_MORE: dict[str, dict[str, str]] = {
    # What CLDR has no short name for, or writes otherwise.
    "*": {
        "%": "concentr-percent", "％": "concentr-percent", "‰": "concentr-permille", "mph": "speed-mile-per-hour",
        "km/h": "speed-kilometer-per-hour", "kph": "speed-kilometer-per-hour", "m/s": "speed-meter-per-second",
        "km2": "area-square-kilometer", "km²": "area-square-kilometer", "m2": "area-square-meter",
        "m²": "area-square-meter", "m3": "volume-cubic-meter", "m³": "volume-cubic-meter", "ml": "volume-milliliter",
        "l": "volume-liter", "L": "volume-liter", "mL": "volume-milliliter", "cc": "volume-cubic-centimeter",
        "lb": "mass-pound", "lbs": "mass-pound", "oz": "mass-ounce", "ft": "length-foot", "µg": "mass-microgram",
        "μg": "mass-microgram", "mcg": "mass-microgram", "°C": "temperature-celsius", "°F": "temperature-fahrenheit",
        "℃": "temperature-celsius", "KB": "digital-kilobyte", "kB": "digital-kilobyte", "MB": "digital-megabyte",
        "GB": "digital-gigabyte", "TB": "digital-terabyte", "KiB": "digital-kilobyte", "MiB": "digital-megabyte",
        "GiB": "digital-gigabyte", "tbsp": "volume-tablespoon", "tsp": "volume-teaspoon", "nmi": "length-nautical-mile",
        "hPa": "pressure-hectopascal", "mbar": "pressure-millibar", "h": "duration-hour", "min": "duration-minute",
        "s": "duration-second", "ms": "duration-millisecond", "ha": "area-hectare", "g": "mass-gram", "t": "mass-tonne",
    },
    "en": {
        "percent": "concentr-percent", "per cent": "concentr-percent", "fps": "", "ton": "", "tons": "",
        "kilometre": "length-kilometer",
        "kilometres": "length-kilometer", "metre": "length-meter", "metres": "length-meter", "litre": "volume-liter",
        "litres": "volume-liter", "centimetres": "length-centimeter", "millimetres": "length-millimeter",
        "tonne": "mass-tonne", "tonnes": "mass-tonne", "square kilometres": "area-square-kilometer",
        "square metres": "area-square-meter", "hours": "duration-hour", "millilitres": "volume-milliliter",
        "kilograms": "mass-kilogram", "kilo": "mass-kilogram", "kilos": "mass-kilogram", 
        "degrees Celsius": "temperature-celsius", "Celsius": "temperature-celsius", "Fahrenheit": "temperature-fahrenheit",
        "degrees Fahrenheit": "temperature-fahrenheit",
        "tablespoonful": "volume-tablespoon", "teaspoonful": "volume-teaspoon", "foot": "length-foot",
    },
    "de": {"Prozent": "concentr-percent", "Esslöffel": "volume-tablespoon", "Teelöffel": "volume-teaspoon",
           "EL": "volume-tablespoon", "TL": "volume-teaspoon", "Metern": "length-meter", "Kilometern": "length-kilometer",
           "Jahren": "duration-year", "Monaten": "duration-month", "Tagen": "duration-day", "Std": "duration-hour",
           "Jahrhunderten": "duration-century", "Jahrzehnten": "duration-decade", 
           "Uhr": ""},
    "fr": {"pour cent": "concentr-percent", "cuillère à soupe": "volume-tablespoon", "cuillères à soupe": "volume-tablespoon",
           "cuillère à café": "volume-teaspoon", "cuillères à café": "volume-teaspoon", 
           "an": "duration-year", "ans": "duration-year", "année": "duration-year", "années": "duration-year"},
    "es": {"por ciento": "concentr-percent", "cucharada": "volume-tablespoon", "cucharadas": "volume-tablespoon",
           "cucharadita": "volume-teaspoon", "cucharaditas": "volume-teaspoon", },
    "ru": {"процент": "concentr-percent", "процента": "concentr-percent", "процентов": "concentr-percent",
           "лет": "duration-year", "года": "duration-year", "году": "", "г": "", "минут": "duration-minute",
           "часа": "duration-hour", "часов": "duration-hour", 
           "столовая ложка": "volume-tablespoon", "столовые ложки": "volume-tablespoon",
           "столовых ложки": "volume-tablespoon", "чайная ложка": "volume-teaspoon", "чайные ложки": "volume-teaspoon",
           "веков": "duration-century", "века": "duration-century", "тонн": "mass-tonne"},
    "zh": {"公里": "length-kilometer", "千米": "length-kilometer", "米": "length-meter", "厘米": "length-centimeter",
           "毫米": "length-millimeter", "公斤": "mass-kilogram", "千克": "mass-kilogram", "克": "mass-gram",
           "吨": "mass-tonne", "小时": "duration-hour", "分钟": "duration-minute", "秒": "duration-second",
           "天": "duration-day", "周": "duration-week", "个月": "duration-month", "年间": "duration-year",
           "升": "volume-liter", "毫升": "volume-milliliter", "平方公里": "area-square-kilometer",
           "平方米": "area-square-meter", "汤匙": "volume-tablespoon", "茶匙": "volume-teaspoon", 
           "摄氏度": "temperature-celsius", "兆字节": "digital-megabyte", "斤": ""},
    "ja": {"キロメートル": "length-kilometer", "キロ": "length-kilometer", "メートル": "length-meter",
           "センチメートル": "length-centimeter", "センチ": "length-centimeter", "ミリメートル": "length-millimeter",
           "キログラム": "mass-kilogram", "グラム": "mass-gram", "トン": "mass-tonne", "時間": "duration-hour",
           "分間": "duration-minute", "分": "duration-minute", "秒": "duration-second", "日間": "duration-day",
           "週間": "duration-week", "か月": "duration-month", "ヶ月": "duration-month", "カ月": "duration-month",
           "年間": "duration-year", "リットル": "volume-liter", "ミリリットル": "volume-milliliter",
           "平方キロメートル": "area-square-kilometer", "平方メートル": "area-square-meter",
           "パーセント": "concentr-percent", "大さじ": "volume-tablespoon", "小さじ": "volume-teaspoon",
                  
           "メガバイト": "digital-megabyte"},
    "ko": {"킬로미터": "length-kilometer", "미터": "length-meter", "센티미터": "length-centimeter", "킬로그램": "mass-kilogram",
           "그램": "mass-gram", "톤": "mass-tonne", "시간": "duration-hour", "분": "duration-minute", "초": "duration-second",
           "일간": "duration-day", "주": "duration-week", "주일": "duration-week", "개월": "duration-month",
           "달": "duration-month", "년간": "duration-year", "리터": "volume-liter", "밀리리터": "volume-milliliter",
           "제곱킬로미터": "area-square-kilometer", "제곱미터": "area-square-meter", "퍼센트": "concentr-percent",
           "프로": "concentr-percent", "큰술": "volume-tablespoon", "작은술": "volume-teaspoon", 
           "메가바이트": "digital-megabyte", "배": ""},
}  # fmt: skip

READ = ("en", "de", "fr", "es", "ru", "zh", "ja", "ko")
"""Languages in which facts are read; in another one only figures are, and the judge model decides alone."""
CJK = frozenset(("zh", "ja", "ko"))
"""Languages written without capitals; Chinese and Japanese also without spaces."""
_NUMBER = re.compile(r"[\d.,\u00a0\u202f]+|\{0\}")


@lru_cache(maxsize=16)
def units_of(language: str) -> dict[str, Unit]:
    """Unit words and symbols of a language: symbols in their case, words also in lower case."""
    from babel import Locale
    from babel.units import format_unit

    found: dict[str, Unit] = {}
    known = language if language in READ else "en"
    locale = Locale(known)
    for name, unit in UNITS.items():
        for length in ("long", "short"):
            for count in (1, 2, 5):
                try:
                    text = _NUMBER.sub("", format_unit(count, name, length=length, locale=locale)).strip(
                        " \u00a0\u202f."
                    )
                except (KeyError, ValueError):
                    continue
                if text:
                    found.setdefault(text, unit)
                    if len(text) > 4:
                        found.setdefault(text.lower(), unit)
    for table in (_MORE["*"], _MORE.get(known, {})):
        for text, name in table.items():
            if name:
                found[text] = UNITS[name]
                found.setdefault(text.lower(), UNITS[name]) if len(text) > 2 else None
            else:
                found.pop(text, None)
    return found | _currencies(known)


def _currencies(language: str) -> dict[str, Unit]:
    from babel.numbers import get_currency_name

    found = {}
    for code in CURRENCIES:
        found[code] = Unit(f"money {code}", 1)
        for count in (1, 2, 5):
            name = get_currency_name(code, count=count, locale=language)
            found.setdefault(name, Unit(f"money {code}", 1))
            found.setdefault(name.lower(), Unit(f"money {code}", 1))
    for symbol, code in _SYMBOLS.items():
        found.setdefault(symbol, Unit(f"money {code}", 1))
    return found


def same_dimension(one: str, other: str) -> bool:
    """Whether two numbers measure the same; "dollar" may be anybody's dollar."""
    if one == other:
        return True
    money = {one, other}
    if "money dollar" in money:
        return bool(money & {f"money {code}" for code in ("USD", "AUD", "CAD", "HKD", "NZD", "SGD")})
    return "money franc" in money and "money CHF" in money


PREFIXES = tuple(sorted((s for s in _SYMBOLS if not s.isalpha() or s == "$"), key=len, reverse=True))
"""Currency signs that stand before an amount, longest first."""
