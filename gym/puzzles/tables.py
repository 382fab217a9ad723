"""Questions over tables: several hops from row to row, and sums and counts across tables."""

from __future__ import annotations

import re
from collections import defaultdict
from random import Random
from typing import Any

import orjson
from tokenmill.gym.answers import LINE, stated
from tokenmill.gym.environment import Drawn, Generated
from tokenmill.gym.puzzles.words import CITIES, NAMES, PRODUCTS
from tokenmill.schemas.draws import digest
from tokenmill.schemas.gym import GymTask

Rows = list[dict[str, Any]]
LEAST_SUM = 100
"""A total is asked for only where it is large enough not to be guessed."""


class Tables(Generated):
    """Customers, products and orders; an answer is a number, or a name with a number."""

    name = "tables"
    budget = 4096
    topics = ("tables", "aggregation")

    def draw(self, seed: int, number: int) -> Drawn:
        random = Random(digest(self.name, seed, number))
        make = (_total_of_city, _best_customer, _chain, _difference)[number % 4]
        while True:
            customers, products, orders = _shop(random)
            if made := make(random, customers, products, orders):
                break
        question, answer = made
        shown = "\n\n".join(
            f"{title}\n\n{_markdown(rows)}"
            for title, rows in (("Customers", customers), ("Products", products), ("Orders", orders))
        )
        kind = "multi_hop" if make in (_chain, _best_customer) else "cross_table"
        return Drawn(f"{shown}\n\n{question} {LINE}", f"Answer: {answer}", {"answer": answer}, kind=kind)

    def fault(self, data: dict[str, Any], text: str) -> str:
        line = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", stated(text).casefold())  # 2,634 is one number
        said = line.replace(",", " ").replace("euros", " ").replace("€", " ").split()
        if said == str(data["answer"]).casefold().replace(",", " ").split():
            return ""
        return f"not {data['answer']}"

    def wrong(self, task: GymTask) -> list[str]:
        answer = str(orjson.loads(task.data)["answer"])
        *name, value = answer.split(", ")
        made = [f"{int(value) + step}" for step in (1, -1, 10, 100)] + [
            value[::-1] + "0",
            "0",
            "the total of all orders",
        ]
        made = [", ".join([*name, one]) for one in made] + (
            [name[0], value] if name else [f"{value} or {int(value) + 1}"]
        )
        return [f"Answer: {one}" for one in made]


def _shop(random: Random) -> tuple[Rows, Rows, Rows]:
    cities = random.sample(CITIES, 3)
    customers = [
        {"customer": 101 + i, "name": name, "city": random.choice(cities)}
        for i, name in enumerate(random.sample(NAMES, 6))
    ]
    products = [
        {"product": f"P{i + 1}", "what": what, "price": random.randint(12, 240)}
        for i, what in enumerate(random.sample(PRODUCTS, 5))
    ]
    orders = [
        {
            "order": 5001 + i,
            "customer": random.choice(customers)["customer"],
            "product": random.choice(products)["product"],
            "pieces": random.randint(1, 9),
        }
        for i in range(14)
    ]
    return customers, products, orders


def _markdown(rows: Rows) -> str:
    head = list(rows[0])
    lines = [head, ["---"] * len(head), *([str(row[name]) for name in head] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _spent(products: Rows, orders: Rows) -> list[tuple[int, str, int]]:
    """(customer, product, euros) of each order."""
    price = {row["product"]: row["price"] for row in products}
    return [(row["customer"], row["product"], row["pieces"] * price[row["product"]]) for row in orders]


def _total_of_city(random: Random, customers: Rows, products: Rows, orders: Rows) -> tuple[str, str] | None:
    city = random.choice(customers)["city"]
    there = {row["customer"] for row in customers if row["city"] == city}
    total = sum(euros for customer, _, euros in _spent(products, orders) if customer in there)
    question = f"Prices are in euros for a piece. How many euros did all customers from {city} spend together?"
    return (question, str(total)) if total >= LEAST_SUM else None


def _best_customer(random: Random, customers: Rows, products: Rows, orders: Rows) -> tuple[str, str] | None:
    by: dict[int, int] = defaultdict(int)
    for customer, _, euros in _spent(products, orders):
        by[customer] += euros
    (first, most), (_, second) = sorted(by.items(), key=lambda one: -one[1])[:2]
    if most == second:
        return None
    name = next(row["name"] for row in customers if row["customer"] == first)
    return "Which customer spent most, and how many euros? Write `name, number`.", f"{name}, {most}"


def _chain(random: Random, customers: Rows, products: Rows, orders: Rows) -> tuple[str, str] | None:
    """From the largest order to its product, to another customer of that product, to what he spent."""
    pieces = sorted(orders, key=lambda row: -row["pieces"])
    if pieces[0]["pieces"] == pieces[1]["pieces"]:
        return None
    product = pieces[0]["product"]
    bought: dict[int, int] = defaultdict(int)
    for row in orders:
        if row["product"] == product:
            bought[row["customer"]] += row["pieces"]
    ranked = sorted(bought.items(), key=lambda one: one[1])
    if len(ranked) < 2 or ranked[0][1] == ranked[1][1]:
        return None
    least = ranked[0][0]
    total = sum(euros for customer, _, euros in _spent(products, orders) if customer == least)
    name = next(row["name"] for row in customers if row["customer"] == least)
    question = (
        "Take the product of the order with the most pieces. Of the customers who ordered that product at all, take the one with "
        "the fewest pieces of it. Who is it, and how many euros did that customer spend on all orders? Write `name, number`."
    )
    return question, f"{name}, {total}"


def _difference(random: Random, customers: Rows, products: Rows, orders: Rows) -> tuple[str, str] | None:
    by: dict[str, int] = defaultdict(int)
    city = {row["customer"]: row["city"] for row in customers}
    for customer, _, euros in _spent(products, orders):
        by[city[customer]] += euros
    if len(by) < 2:
        return None
    one, other = sorted(by)[:2]
    difference = abs(by[one] - by[other])
    question = f"By how many euros do the totals spent by customers from {one} and by customers from {other} differ?"
    return (question, str(difference)) if difference >= LEAST_SUM else None
