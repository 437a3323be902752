"""German: declension, conjugation and word order."""

from tools.sample.clauses import Adverbial, Clause, Phrase
from tools.sample.lexicon import Noun
from tools.sample.marks import bare, marks_of, weakened
from tools.sample.verbs import Verb

CASES = ("nominative", "accusative", "dative", "genitive")
COLUMNS = ("m", "f", "n", "plural")


def _table(text: str) -> dict[tuple[str, str], str]:
    """Four rows, one per case, of four endings, one per gender and the plural; "-" is no ending."""
    rows = [row.split() for row in text.split("/")]
    return {
        (case, column): ending.replace("-", "")
        for case, row in zip(CASES, rows, strict=True)
        for column, ending in zip(COLUMNS, row, strict=True)
    }


DEFINITE = _table("der die das die / den die das die / dem der dem den / des der des der")
DER_WORD = _table("er e es e / en e es e / em er em en / es er es er")
EIN_WORD = _table("- e - e / en e - e / em er em en / es er es er")
WEAK = _table("e e e en / en e e en / en en en en / en en en en")
MIXED = _table("er e es en / en e es en / en en en en / en en en en")
STRONG = _table("er e es e / en e es e / em er em en / en er en er")
RELATIVE = _table("der die das die / den die das die / dem der dem denen / dessen deren dessen deren")

EIN_WORDS = {
    "a": "ein", "no": "kein", "my": "mein", "your": "dein", "his": "sein", "her": "ihr", "our": "unser", "their": "ihr",
}  # fmt: skip
DER_WORDS = {"this": "dies", "every": "jed", "all": "all"}
NUMERALS = {"two": "zwei", "three": "drei", "four": "vier"}
QUANTIFIERS = {"many": "viel", "some": "einig"}
PRONOUNS = {
    "I": ("ich", "mich", "mir"), "you": ("du", "dich", "dir"), "he": ("er", "ihn", "ihm"), "she": ("sie", "sie", "ihr"),
    "it": ("es", "es", "ihm"), "we": ("wir", "uns", "uns"), "they": ("sie", "sie", "ihnen"),
    "who": ("wer", "wen", "wem"), "what": ("was", "was", ""),
}  # fmt: skip
CONTRACTIONS = {
    ("in", "dem"): "im", ("in", "das"): "ins", ("an", "dem"): "am", ("an", "das"): "ans", ("zu", "dem"): "zum",
    ("zu", "der"): "zur", ("bei", "dem"): "beim", ("von", "dem"): "vom",
}  # fmt: skip
SHORTENED_STEMS = {"teuer": "teur", "dunkel": "dunkl", "müde": "müd"}

# forms for I, you, he, we; the tenses that English marks with an auxiliary and German with a finite verb and a rest
FINITE = {
    "haben": ("habe", "hast", "hat", "haben"),
    "sein": ("bin", "bist", "ist", "sind"),
    "wissen": ("weiß", "weißt", "weiß", "wissen"),
    "future": ("werde", "wirst", "wird", "werden"),
    "can": ("kann", "kannst", "kann", "können"),
    "must": ("muss", "musst", "muss", "müssen"),
    "want": ("will", "willst", "will", "wollen"),
    "should": ("sollte", "solltest", "sollte", "sollten"),
    "wanted": ("wollte", "wolltest", "wollte", "wollten"),
    "had to": ("musste", "musstest", "musste", "mussten"),
}
PERSONS = ("I", "you", "he", "we")


def decline_noun(noun: Noun, case: str, plural: bool = False) -> str:
    """One form of a noun: weak masculines take -(e)n outside the nominative, the dative plural takes -n."""
    if plural:
        needs_n = case == "dative" and not noun.german_plural.endswith(("n", "s"))
        return noun.german_plural + ("n" if needs_n else "")
    if "weak" in noun.tags and case != "nominative":
        return noun.german + ("n" if noun.german.endswith(("e", "r")) and noun.german != "Bär" else "en")
    if case == "genitive" and noun.gender != "f":
        return noun.german + ("es" if "es" in noun.tags else "s")
    return noun.german


def decline_determiner(determiner: str, case: str, column: str) -> tuple[str, dict[tuple[str, str], str]]:
    """The German determiner in one case, with the table of adjective endings that it asks for."""
    if determiner == "the":
        return DEFINITE[case, column], WEAK
    if determiner in DER_WORDS:
        return DER_WORDS[determiner] + DER_WORD[case, column], WEAK
    if determiner in EIN_WORDS:
        return EIN_WORDS[determiner] + EIN_WORD[case, column], MIXED
    if determiner in QUANTIFIERS:
        return QUANTIFIERS[determiner] + STRONG[case, column], STRONG
    return NUMERALS.get(determiner, ""), STRONG


def inflect_adjective(adjective: str, ending: str) -> str:
    """An attributive adjective: its stem, shortened where German shortens it, and the ending."""
    return SHORTENED_STEMS.get(adjective, adjective) + ending


def decline(phrase: Phrase, case: str, negative: bool = False) -> str:
    """A whole noun phrase in one case; `negative` turns an indefinite one into a phrase with `kein`."""
    if phrase.silent:
        return ""
    if phrase.pronoun:
        return phrase.sure("pronoun", PRONOUNS[phrase.pronoun][CASES.index(case)])
    noun = phrase.noun
    assert noun is not None
    column = "plural" if phrase.plural else noun.gender
    denied = negative and phrase.indefinite
    determiner, endings = decline_determiner("no" if denied else phrase.determiner, case, column)
    determiner = (phrase.possible if denied else phrase.sure)("determiner", determiner)
    adjective = inflect_adjective(phrase.adjective.german, endings[case, column]) if phrase.adjective else ""
    head = phrase.sure("noun", decline_noun(noun, case, phrase.plural))
    text = join(determiner, phrase.sure("adjective", adjective), head)
    if phrase.owner:
        text = join(text, decline(phrase.owner, "genitive"))
    if phrase.relative:
        pronoun = phrase.sure("relative", RELATIVE[phrase.relative.case, column])
        relative = join(pronoun, order(phrase.relative.clause, "last"))
        text = f"{text}, {relative},"
    return join(text, phrase.sure("and", "und"), decline(phrase.partner, case)) if phrase.partner else text


def conjugate(verb: Verb, tense: str, agreement: str) -> str:
    """The finite form of a verb in the present or the preterite, for I, you, he or we, without a separable prefix."""
    person = PERSONS.index(agreement)
    if tense == "past":
        if agreement == "you":
            raise ValueError("the corpus has no preterite for du; use the perfect")
        return verb.preterite + ("" if person != 3 else "n" if verb.preterite.endswith("e") else "en")
    if verb.infinitive in FINITE:
        return FINITE[verb.infinitive][person]
    if agreement == "we":
        return verb.infinitive
    if agreement == "he":
        return verb.third
    if agreement == "I":
        if verb.infinitive.endswith("eln"):
            return verb.infinitive[:-3] + "le"
        return verb.infinitive[:-1] + ("" if verb.infinitive.endswith("en") else "e")
    # "hält" has swallowed the ending after its own t, which "du hältst" keeps
    body = verb.third if verb.infinitive.endswith("ten") and not verb.third.endswith("et") else verb.third[:-1]
    return body + ("t" if body.endswith(("s", "ß", "z")) else "st")


def verb_group(clause: Clause) -> tuple[str, str, str]:
    """The finite verb, the rest of the verb that closes the clause, and the two reunited at the end of one."""
    verb, agreement = clause.verb, clause.subject.agreement
    if clause.tense in ("present", "past"):
        finite = conjugate(verb, clause.tense, agreement)
        return _finite(clause, "verb", finite), _prefix(clause), _finite(clause, "verb", _whole(clause, finite))
    if clause.tense == "perfect":
        finite, rest = FINITE[verb.auxiliary][PERSONS.index(agreement)], verb.participle
        rest = clause.sure("particle", rest) if verb.prefix else rest
    else:
        finite, rest = FINITE[clause.tense][PERSONS.index(agreement)], _whole(clause, verb.infinitive)
    finite, rest = _finite(clause, "finite", finite), clause.sure("verb", rest)
    return finite, rest, join(rest, finite)


def _finite(clause: Clause, role: str, word: str) -> str:
    """The finite verb, which has its own role, and that of English `do` where English needs one."""
    return clause.sure(role, clause.sure("support", word))


def _prefix(clause: Clause) -> str:
    """A separated prefix: as much of the verb as its stem, unless English has a particle for it."""
    prefix = clause.verb.prefix
    if clause.verb.particle:
        return clause.possible("verb", clause.sure("particle", prefix))
    return clause.sure("verb", prefix)


def _whole(clause: Clause, form: str) -> str:
    """A form of the verb with its prefix."""
    return clause.sure("particle", clause.verb.prefix + form) if clause.verb.prefix else form


def adverbial(part: Adverbial | None) -> str:
    """A phrase of place, time or manner, its preposition contracted with a plain article where German does so."""
    if part is None or part.phrase is None:
        return part.german if part else ""
    first, _, rest = decline(part.phrase, part.case).partition(" ")
    if part.phrase.determiner == "the" and (contracted := CONTRACTIONS.get((bare(part.german), bare(first)))):
        return join(marks_of(part.german) + weakened(marks_of(first)) + contracted, rest)
    return join(part.german, first, rest)


def middle_field(clause: Clause) -> str:
    """What stands between the two verb brackets, without the subject.

    Pronouns first, then the dative, time, a definite object, frequency, `nicht`, manner, and place or direction last.
    Frequency and a free phrase of place or company move before an indefinite object, which carries the news; frequency
    also moves before an object that has a dative at its side.
    """
    direct = clause.direct
    indirect = decline(clause.indirect, "dative") if clause.indirect else ""
    object_text = decline(direct, clause.direct_case, clause.negative) if direct else ""
    denied = clause.negative and direct is not None and direct.indefinite
    if denied:
        object_text = clause.sure("negation", object_text)  # which marks its first word, `kein`
    early = ""
    if direct and (direct.pronoun or clause.direct_case == "dative"):
        early, object_text = object_text, ""
    free_first = bool(direct and direct.indefinite)
    object_last = free_first or bool(clause.frequency and clause.indirect)
    negation = clause.sure("negation", "nicht") if clause.negative and not denied else ""
    free, directed = adverbial(clause.free), adverbial(clause.directed)
    return join(
        early, indirect, "" if clause.time_first else adverbial(clause.time),
        "" if object_last else object_text, adverbial(clause.frequency), free if free_first else "",
        object_text if object_last else "", negation, adverbial(clause.manner), "" if free_first else free, directed,
    )  # fmt: skip


def order(clause: Clause, position: str, opening: str = "") -> str:
    """The clause with its finite verb first, second (after `opening`, if given) or last, or as a `zu` infinitive."""
    subject = decline(clause.subject, "nominative")
    finite, rest, reunited = verb_group(clause)
    field = middle_field(clause)
    if position == "zu":
        verb = clause.verb
        if verb.prefix:
            within = f"{verb.prefix}zu{verb.infinitive}"
            return join(field, clause.sure("verb", clause.sure("particle", clause.possible("to", within))))
        return join(field, clause.sure("to", "zu"), clause.sure("verb", verb.infinitive))
    if position == "last":
        return join(opening, subject, adverbial(clause.time) if clause.time_first else "", field, reunited)
    if clause.time_first and not opening and position == "second":
        opening = adverbial(clause.time)
    if position == "first" or opening:
        return join(opening, finite, subject, field, rest)
    return join(subject, finite, field, rest)


def join(*parts: str) -> str:
    """The non-empty parts with one space between them."""
    return " ".join(filter(None, parts))
