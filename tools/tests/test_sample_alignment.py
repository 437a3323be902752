"""Which German word renders which English word in the sample corpus."""

from functools import partial
from itertools import islice

import pytest

from tools.sample import english
from tools.sample.alignment import align
from tools.sample.clauses import Adverbial, Clause, Phrase, Relative, sentence
from tools.sample.lexicon import ADJECTIVES, NOUNS
from tools.sample.sentences import stream
from tools.sample.split import LECTURE
from tools.sample.verbs import VERBS
from tools.sample.wording import (
    after_main,
    asked,
    asked_with,
    attempted,
    before_main,
    intended,
    side_by_side,
    stated,
)


@pytest.fixture(scope="module")
def drawn():
    return [(one, *align(one)) for one in islice(stream(5), 3000)]


def test_every_word_has_a_link_and_sure_ones_are_possible(drawn):
    only_possible = 0
    for one, sure, possible in drawn:
        assert sure <= possible
        assert {source for source, _ in possible} == set(range(len(one.source.split()))), one
        assert {target for _, target in possible} == set(range(len(one.target.split()))), one
        only_possible += len(possible - sure)
    assert only_possible > 100


def test_every_content_word_has_a_sure_link(drawn):
    forms = {form for noun in NOUNS.values() for form in (noun.english, noun.english_plural)} | {*ADJECTIVES}
    for verb in VERBS.values():
        if verb.english not in ("be", "have"):
            forms |= {verb.english, verb.past, verb.past_participle, english.third_person(verb.english)}
    seen = 0
    for one, sure, _ in drawn:
        for place, word in enumerate(one.source.split()):
            if word.lower().strip(",?.").removesuffix("'s") in forms:
                seen += 1
                assert any(source == place for source, _ in sure), (one, word)
        for place, word in enumerate(one.target.split()):
            if word[0].isupper() and place:
                assert any(target == place for _, target in sure), (one, word)
    assert seen > 10_000


def test_words_are_linked_once_for_each_noun_and_not_crosswise():
    """Two nouns of the same shape in one sentence are told apart by where they came from, not by their words."""
    two = Clause(subject=phrase("cat", "the"), verb=VERBS["see/sehen"], direct=phrase("cat", "the"))
    assert links(sentence(stated, two)) == ("the cat sees the cat", "die Katze sieht die Katze", "0-0 1-1 2-2 3-3 4-4")


def phrase(noun, determiner="the", **more):
    return Phrase(noun=NOUNS[noun], determiner=determiner, **more)


def clause(subject, verb, **more):
    given = phrase(subject) if subject in NOUNS else Phrase(pronoun=subject)
    return Clause(subject=given, verb=VERBS[verb], **more)


def links(one):
    """The English, the German, and the links in order of the German words, `?` where they are only possible."""
    sure, possible = align(one)
    written = [f"{source}{'-' if (source, target) in sure else '?'}{target}" for source, target in possible]
    return one.source, one.target, " ".join(sorted(written, key=lambda link: (int(link[-1]), link)))


WINDOW = clause("woman", "open/aufmachen", direct=phrase("window"))
PAPER = clause("man", "read/lesen", direct=phrase("newspaper"), tense="perfect", negative=True)
NO_PAPER = clause("man", "read/lesen", direct=phrase("newspaper", "a"), negative=True)
ASLEEP = clause("king", "fall asleep/einschlafen", tense="past")
HOUSE = phrase("house")
IN_THE_HOUSE = Adverbial("in", "in", "dative", HOUSE)
INTO_THE_HOUSE = Adverbial("into", "in", "accusative", HOUSE)
MORE_BORING = Adverbial("more boring than", "langweiliger als", "nominative", phrase("novel"), "boring")
SLEEP = clause("dog", "sleep/schlafen")
GAP = Phrase(noun=NOUNS["boy"], silent=True)
SEEN = Relative(Clause(subject=phrase("woman"), verb=VERBS["see/sehen"], direct=GAP), "accusative")
TIRED = Adverbial("tired", "müde", adjective="tired")


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (LECTURE, ("The cat danced.", "Die Katze tanzte.", "0-0 1-1 2-2")),
        (
            sentence(stated, WINDOW),
            ("the woman opens the window", "die Frau macht das Fenster auf", "0-0 1-1 2-2 3-3 4-4 2-5"),
        ),
        (
            sentence(stated, clause("boy", "get up/aufstehen")),
            ("the boy gets up", "der Junge steht auf", "0-0 1-1 2-2 3?2 2?3 3-3"),
        ),
        (
            sentence(stated, clause("boy", "get up/aufstehen", tense="perfect")),
            ("the boy has got up", "der Junge ist aufgestanden", "0-0 1-1 2-2 3-3 4-3"),
        ),
        (
            sentence(stated, ASLEEP),
            ("the king fell asleep", "der König schlief ein", "0-0 1-1 2-2 3-2 2?3 3?3"),
        ),
        (
            sentence(asked, WINDOW),
            ("does the woman open the window?", "macht die Frau das Fenster auf?", "0?0 3-0 1-1 2-2 4-3 5-4 3-5"),
        ),
        (
            sentence(partial(asked_with, "why", "warum"), clause("cat", "dance/tanzen", tense="wanted")),
            ("why did the cat want to dance?", "warum wollte die Katze tanzen?", "0-0 1?1 4-1 2-2 3-3 5?4 6-4"),
        ),
        (
            sentence(stated, PAPER),
            (
                "the man has not read the newspaper",
                "der Mann hat die Zeitung nicht gelesen",
                "0-0 1-1 2-2 5-3 6-4 3-5 4-6",
            ),
        ),
        (
            sentence(stated, NO_PAPER),
            ("the man does not read a newspaper", "der Mann liest keine Zeitung", "0-0 1-1 2?2 4-2 3-3 5?3 6-4"),
        ),
        (
            sentence(stated, clause("cat", "dance/tanzen", tense="can", negative=True)),
            ("the cat cannot dance", "die Katze kann nicht tanzen", "0-0 1-1 2-2 2-3 3-4"),
        ),
        (
            sentence(stated, clause("dog", "sleep/schlafen", tense="had to", directed=IN_THE_HOUSE)),
            (
                "the dog had to sleep in the house",
                "der Hund musste im Haus schlafen",
                "0-0 1-1 2-2 3?2 5-3 6?3 7-4 3?5 4-5",
            ),
        ),
        (
            sentence(stated, Clause(subject=phrase("dog", owner=phrase("farmer")), verb=SLEEP.verb)),
            ("the farmer's dog sleeps", "der Hund des Bauern schläft", "1?0 2-1 0-2 1?2 1-3 3-4"),
        ),
        (
            sentence(
                intended, clause("she", "go/gehen", directed=INTO_THE_HOUSE), clause("she", "sleep/schlafen")
            ),
            (
                "she goes into the house in order to sleep",
                "sie geht ins Haus, um zu schlafen",
                "0-0 1-1 2-2 3?2 4-3 5?4 6?4 7-5 8-6",
            ),
        ),
        (
            sentence(attempted, clause("woman", "try/versuchen"), WINDOW),
            (
                "the woman tries to open the window",
                "die Frau versucht, das Fenster aufzumachen",
                "0-0 1-1 2-2 5-3 6-4 3?5 4-5",
            ),
        ),
        (
            sentence(partial(after_main, "because", "weil"), SLEEP, clause("cat", "dance/tanzen", tense="perfect")),
            (
                "the dog sleeps because the cat has danced",
                "der Hund schläft, weil die Katze getanzt hat",
                "0-0 1-1 2-2 3-3 4-4 5-5 7-6 6-7",
            ),
        ),
        (
            sentence(partial(before_main, "when", "als"), SLEEP, ASLEEP),
            (
                "when the king fell asleep, the dog sleeps",
                "als der König einschlief, schläft der Hund",
                "0-0 1-1 2-2 3-3 4-3 7-4 5-5 6-6",
            ),
        ),
        (
            sentence(partial(side_by_side, "so"), SLEEP, clause("cat", "dance/tanzen")),
            (
                "the dog sleeps, so the cat dances",
                "der Hund schläft, deshalb tanzt die Katze",
                "0-0 1-1 2-2 3-3 6-4 4-5 5-6",
            ),
        ),
        (
            sentence(stated, Clause(subject=phrase("boy", relative=SEEN), verb=VERBS["be/sein"], directed=TIRED)),
            (
                "the boy whom the woman sees is tired",
                "der Junge, den die Frau sieht, ist müde",
                "0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7",
            ),
        ),
        (
            sentence(stated, clause("cat", "dance/tanzen", time=Adverbial("in the morning", "am Morgen"))),
            ("the cat dances in the morning", "die Katze tanzt am Morgen", "0-0 1-1 2-2 3-3 4?3 5-4"),
        ),
        (
            sentence(stated, clause("report", "be/sein", directed=MORE_BORING)),
            (
                "the report is more boring than the novel",
                "der Bericht ist langweiliger als der Roman",
                "0-0 1-1 2-2 3?3 4-3 5-4 6-5 7-6",
            ),
        ),
        (
            sentence(stated, clause("dog", "sleep/schlafen", free=Adverbial("in front of", "vor", "dative", HOUSE))),
            (
                "the dog sleeps in front of the house",
                "der Hund schläft vor dem Haus",
                "0-0 1-1 2-2 3?3 4-3 5?3 6-4 7-5",
            ),
        ),
        (
            sentence(stated, clause("she", "travel/reisen", free=Adverbial("by train", "mit dem Zug"))),
            ("she travels by train", "sie reist mit dem Zug", "0-0 1-1 2-2 3?3 3-4"),
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_links_by_hand(one, expected):
    assert links(one) == expected
