"""Ordinary words and names that tasks are made of, and the Morse code: the lists of `words.txt`."""

from importlib import resources

_LINES = resources.files(__package__).joinpath("words.txt").read_text(encoding="utf-8").splitlines()
LISTS = {name: rest.split() for name, _, rest in (line.partition(": ") for line in _LINES)}
ADJECTIVES, NOUNS, PLACES = LISTS["adjectives"], LISTS["nouns"], LISTS["places"]
NAMES, CITIES, PRODUCTS = LISTS["names"], LISTS["cities"], LISTS["products"]
