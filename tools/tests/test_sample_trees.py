"""The grammar's trees of the sentences that it makes: checked by hand for each wording and for set phrases."""

import lzma
from dataclasses import replace
from functools import partial
from itertools import islice

import pytest

from tools.sample import wording
from tools.sample.__main__ import TREES as FILE
from tools.sample.__main__ import tree_lines
from tools.sample.builder import BE, BY_VEHICLE, FREQUENCIES, TIMES
from tools.sample.clauses import Adverbial, Clause, Phrase, Relative, sentence
from tools.sample.lexicon import ADJECTIVES, NOUNS
from tools.sample.prepositions import MANNERS, PREPOSITIONS
from tools.sample.sentences import stream
from tools.sample.split import LECTURE
from tools.sample.trees import TREES, tree_of, words_of
from tools.sample.verbs import VERBS
from tools.sample.writing import written_as

CAT, DOG, TEA = (Phrase(noun=NOUNS[name], determiner="the") for name in ("cat", "dog", "tea"))
TODAY = Adverbial("today", "heute")
NOT_IN_THE_CORPUS = "at noon"
DANCE, BRING_BACK, LOOK_FOR = VERBS["dance/tanzen"], VERBS["bring back/zurückbringen"], VERBS["look for/suchen"]


def clause(verb=DANCE, subject=CAT, **more):
    return Clause(subject=subject, verb=verb, **more)


def test_the_grammar_writes_the_trees_that_the_package_ships():
    assert "".join(tree_lines()) == lzma.decompress(FILE.read_bytes()).decode()


def test_every_sentence_of_a_stream_has_a_tree_with_its_words():
    """The function itself refuses another tree."""
    assert all(tree_of(one).startswith("(TOP (S") for one in islice(stream(12), 5_000))


def test_a_tree_with_other_words_than_its_sentence_is_refused():
    for source in ("The dog danced.", "The cat danced today.", "The cat.", "The Cat danced.", "The cat danced?,"):
        with pytest.raises(AssertionError, match="is not the tree of"):
            tree_of(replace(LECTURE, source=source))
    with pytest.raises(AssertionError, match="is not the tree of"):
        tree_of(sentence(wording.stated, clause(time=Adverbial(NOT_IN_THE_CORPUS, "mittags"))))


def test_every_way_to_make_a_sentence_has_a_way_to_make_its_tree():
    made = {name for name, value in vars(wording).items() if getattr(value, "__module__", "") == wording.__name__}
    assert {each.__name__ for each in TREES} == made
    assert all(each.__name__ == tree.__name__ for each, tree in TREES.items())


def test_words_are_those_of_the_treebank():
    text = "If it rains, he cannot see the farmer's dog."
    assert " ".join(words_of(text)) == "If it rains , he can not see the farmer 's dog ."


@pytest.mark.parametrize(
    ("capital", "mark", "expected"),
    [
        (True, True, "(TOP (S (NP (DT The) (NN cat)) (VP (VBZ dances)) (. .)))"),
        (True, False, "(TOP (S (NP (DT The) (NN cat)) (VP (VBZ dances))))"),
        (False, True, "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ dances)) (. .)))"),
        (False, False, "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ dances))))"),
    ],
)
def test_capitals_and_marks_are_as_written(capital, mark, expected):
    assert tree_of(written_as(sentence(wording.stated, clause()), capital, mark)) == expected


@pytest.mark.parametrize(
    ("made", "clauses", "expected"),
    [
        (wording.stated, [clause(tense="can", negative=True)],
         "(S {cat} (VP (MD can) (RB not) (VP (VB dance))))"),
        (wording.stated, [clause(tense="had to", negative=True)],
         "(S {cat} (VP (VBD did) (RB not) (VP (VB have) (S (VP (TO to) (VP (VB dance)))))))"),
        (wording.stated, [clause(tense="perfect", frequency=Adverbial("often", "oft"))],
         "(S {cat} (VP (VBZ has) (ADVP (RB often)) (VP (VBN danced))))"),
        (wording.stated, [clause(tense="past", time=TODAY, time_first=True)],
         "(S (NP (NN today)) {cat} (VP (VBD danced)))"),
        (wording.stated, [clause(BRING_BACK, direct=DOG, tense="past")],
         "(S {cat} (VP (VBD brought) (PRT (RP back)) {dog}))"),
        (wording.stated, [clause(VERBS["come back/zurückkommen"])],
         "(S {cat} (VP (VBZ comes) (ADVP (RB back))))"),
        (wording.stated, [clause(VERBS["drink/trinken"], direct=TEA, directed=Adverbial(
            "without", "ohne", "accusative", Phrase(noun=NOUNS["milk"])))],
         "(S {cat} (VP (VBZ drinks) (NP (NP (DT the) (NN tea)) (PP (IN without) (NP (NN milk))))))"),
        (wording.asked, [clause(BE, directed=Adverbial("too big", "zu groß", adjective="big"))],
         "(SQ (VBZ is) {cat} (ADJP (RB too) (JJ big)))"),
        (wording.asked, [clause(tense="perfect", time=TODAY)],
         "(SQ (VBZ has) {cat} (VP (VBN danced) (NP (NN today))))"),
        (partial(wording.asked_with, "why", "warum"), [clause(negative=True)],
         "(SBARQ (WHADVP (WRB why)) (SQ (VBZ does) {cat} (RB not) (VP (VB dance))))"),
        (partial(wording.asked_with, "what", "was"), [clause(LOOK_FOR, time=TODAY)],
         "(SBARQ (WHNP (WP what)) (SQ (VBZ does) {cat} (VP (VB look) (PP (IN for)) (NP (NN today)))))"),
        (partial(wording.asked_with, "what", "was"), [clause(BRING_BACK)],
         "(SBARQ (WHNP (WP what)) (SQ (VBZ does) {cat} (VP (VB bring) (PRT (RP back)))))"),
        (wording.asked_who, [clause(subject=Phrase(pronoun="who"))],
         "(SBARQ (WHNP (WP who)) (SQ (VP (VBZ dances))))"),
        (partial(wording.before_main, "when", "als"), [clause(), clause(subject=DOG)],
         "(S (SBAR (WHADVP (WRB when)) (S {dog} (VP (VBZ dances)))) (, ,) {cat} (VP (VBZ dances)))"),
        (partial(wording.after_main, "if", "wenn"), [clause(tense="must"), clause(subject=DOG)],
         "(S {cat} (VP (MD must) (VP (VB dance) (SBAR (IN if) (S {dog} (VP (VBZ dances)))))))"),
        (partial(wording.after_main, "", ""), [clause(VERBS["know/wissen"]), clause(subject=Phrase(pronoun="who"))],
         "(S {cat} (VP (VBZ knows) (SBAR (WHNP (WP who)) (S (VP (VBZ dances))))))"),
        (partial(wording.side_by_side, "and"), [clause(), clause(subject=DOG)],
         "(S (S {cat} (VP (VBZ dances))) (CC and) (S {dog} (VP (VBZ dances))))"),
        (partial(wording.side_by_side, "so"), [clause(), clause(subject=DOG)],
         "(S (S {cat} (VP (VBZ dances))) (, ,) (RB so) (S {dog} (VP (VBZ dances))))"),
        (wording.attempted, [clause(VERBS["try/versuchen"], tense="perfect"), clause()],
         "(S {cat} (VP (VBZ has) (VP (VBN tried) (S (VP (TO to) (VP (VB dance)))))))"),
        (wording.intended, [clause(VERBS["come/kommen"]), clause(LOOK_FOR, direct=DOG)],
         "(S {cat} (VP (VBZ comes) (SBAR (IN in) (NN order) (S (VP (TO to) (VP (VB look) (PP (IN for) {dog})))))))"),
    ],
)  # fmt: skip
def test_each_wording_has_its_tree(made, clauses, expected):
    known = expected.format(cat="(NP (DT the) (NN cat))", dog="(NP (DT the) (NN dog))")
    one = sentence(made, *clauses)
    mark = " (. ?)))" if one.source.endswith("?") else "))"
    assert tree_of(one) == f"(TOP {known.removesuffix(')')}{mark}"


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (Phrase(noun=NOUNS["dog"], determiner="all", plural=True), "(NP (PDT all) (DT the) (NNS dogs))"),
        (Phrase(noun=NOUNS["dog"], determiner="four", plural=True, adjective=ADJECTIVES["old"]),
         "(NP (CD four) (JJ old) (NNS dogs))"),
        (Phrase(noun=NOUNS["dog"], determiner="many", plural=True), "(NP (JJ many) (NNS dogs))"),
        (Phrase(noun=NOUNS["apple"], determiner="a"), "(NP (DT an) (NN apple))"),
        (Phrase(noun=NOUNS["milk"]), "(NP (NN milk))"),
        (Phrase(pronoun="it"), "(NP (PRP it))"),
        (Phrase(noun=NOUNS["dog"], determiner="the", owner=Phrase(noun=NOUNS["farmer"], determiner="my"),
                adjective=ADJECTIVES["old"]), "(NP (NP (PRP$ my) (NN farmer) (POS 's)) (JJ old) (NN dog))"),
        (replace(CAT, partner=DOG), "(NP (NP (DT the) (NN cat)) (CC and) (NP (DT the) (NN dog)))"),
    ],
)  # fmt: skip
def test_noun_phrases(subject, expected):
    one = sentence(wording.stated, clause(subject=subject, tense="past"))
    assert tree_of(one) == f"(TOP (S {expected} (VP (VBD danced))))"


@pytest.mark.parametrize(
    ("noun", "case", "gap", "expected"),
    [
        ("man", "nominative", "subject", "(SBAR (WHNP (WP who)) (S (VP (VBZ looks) (PP (IN for) (NP (PRP it))))))"),
        ("key", "nominative", "subject", "(SBAR (WHNP (WDT that)) (S (VP (VBZ looks) (PP (IN for) (NP (PRP it))))))"),
        ("man", "accusative", "direct", "(SBAR (WHNP (WP whom)) (S (NP (PRP it)) (VP (VBZ looks) (PP (IN for)))))"),
    ],
)
def test_relative_clauses_have_a_gap(noun, case, gap, expected):
    silent, it = Phrase(noun=NOUNS[noun], silent=True), Phrase(pronoun="it")
    inner = replace(Clause(subject=it, verb=LOOK_FOR, direct=it), **{gap: silent})
    head = Phrase(noun=NOUNS[noun], determiner="the", relative=Relative(inner, case))
    one = sentence(wording.stated, clause(subject=head, tense="past"))
    assert tree_of(one) == f"(TOP (S (NP (NP (DT the) (NN {noun})) {expected}) (VP (VBD danced))))"


def adverbials():
    """All that the tables of the grammar have."""
    for english, german, case, _ in PREPOSITIONS.values():
        yield Adverbial(english, german, case, DOG)
    yield from (time for time, _ in TIMES)
    yield from BY_VEHICLE
    yield from (Adverbial(*item) for item in MANNERS.items())
    yield from (Adverbial(*pair) for pairs in FREQUENCIES.values() for pair in pairs)
    for adjective in (adjective for adjective in ADJECTIVES.values() if adjective.comparative):
        for text in (f"{adjective.comparative[0]} than", f"as {adjective.english} as"):
            yield Adverbial(text, "", "nominative", DOG, adjective.english)


def test_all_adverbials_of_the_grammar_have_a_tree():
    trees = {given.english: tree_of(sentence(wording.stated, clause(free=given))) for given in adverbials()}
    for english, expected in (
        ("in front of", "(PP (IN in) (NP (NP (NN front)) (PP (IN of) (NP (DT the) (NN dog)))))"),
        ("next to", "(ADVP (JJ next) (PP (TO to) (NP (DT the) (NN dog))))"),
        ("out of", "(PP (IN out) (PP (IN of) (NP (DT the) (NN dog))))"),
        ("to", "(PP (TO to) (NP (DT the) (NN dog)))"),
        ("up", "(PP (IN up) (NP (DT the) (NN dog)))"),
        ("by train", "(PP (IN by) (NP (NN train)))"),
        ("every day", "(NP (DT every) (NN day))"),
        ("on Monday", "(PP (IN on) (NP (NNP Monday)))"),
        ("now", "(ADVP (RB now))"),
        ("well", "(ADVP (RB well))"),
        ("bigger than", "(ADJP (JJR bigger) (PP (IN than) (NP (DT the) (NN dog))))"),
        ("more expensive than", "(ADJP (RBR more) (JJ expensive) (PP (IN than) (NP (DT the) (NN dog))))"),
        ("as big as", "(ADJP (RB as) (JJ big) (PP (IN as) (NP (DT the) (NN dog))))"),
    ):
        assert trees[english] == f"(TOP (S (NP (DT the) (NN cat)) (VP (VBZ dances) {expected})))"
