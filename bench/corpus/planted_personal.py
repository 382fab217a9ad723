"""Personal data as Faker makes it up, in sentences of Faker's, for `bench.corpus.personal`; run by a Python that has faker.

python bench/corpus/planted_personal.py 1000 > planted.jsonl
"""

import json
import random
import sys

from faker import Faker

LOCALES = ("en_US", "en_GB", "de_DE", "fr_FR", "es_ES", "it_IT", "nl_NL", "pl_PL", "sv_SE")


def main() -> None:
    count = int(sys.argv[1])
    Faker.seed(0)
    random.seed(0)
    fakes = {locale: Faker(locale) for locale in LOCALES}
    lorem = Faker("en_US")
    for number in range(count):
        locale = LOCALES[number % len(LOCALES)]
        fake = fakes[locale]
        kinds = {
            "email": fake.email,
            "ip": lambda fake=fake: fake.ipv4_public() if random.random() < 0.7 else fake.ipv6(),
            "phone": fake.phone_number,
            "card": fake.credit_card_number,
            "iban": fake.iban,
        }
        for kind, make in kinds.items():
            planted = make()
            said = {"email": "Mail: ", "ip": "from ", "phone": "Tel. ", "card": "paid with ", "iban": "IBAN "}[kind]
            text = f"{lorem.paragraph()} {said}{planted}. {lorem.paragraph()}"
            print(json.dumps({"kind": kind, "locale": locale, "planted": planted, "text": text}))


if __name__ == "__main__":
    main()
