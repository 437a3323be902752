"""The verbs of the sample corpus, and the frames they stand in, whose phrases `prepositions.py` names.

A verb line reads `english : German`. Regular forms are derived; irregular ones are written out as
`base/past/participle particle : infinitive third-person preterite participle auxiliary`. In a German infinitive
`|` marks a separable prefix and `*` an inseparable one. Each indented line below a verb is one frame:

    subjects ; object (case: kinds) ; directed phrases, one of which is chosen ; free phrases ; manners and flags

A `-` among directed phrases lets the verb stand without one. The flag `state` allows only the plain present and past
and no adverb of time; `posture` forbids the perfect, where Germans north and south disagree on the auxiliary.
"""

from dataclasses import dataclass

from tools.sample.prepositions import MANNERS

_VERBS = """
dance : tanzen
  person cat bear monkey ; ; - ; place with ; slowly
sleep/slept/slept : schlafen schläft schlief geschlafen haben
  person animal ; ; - ; place ; well
laugh : lachen
  person ; ; - ; ; loudly quietly
sing/sang/sung : singen singt sang gesungen haben
  person ; ; - ; place with ; loudly quietly well
  person ; accusative: song ; - ; ; loudly quietly
  bird ; ; - ; place ; loudly
work : arbeiten
  person ; ; - ; place with ; slowly carefully
wait : warten
  person ; ; - ; place ;
  person ; ; wait-for ; ;
play : spielen
  person ; ; - ; place with ; loudly quietly
  small ; ; - ; place with ;
  person ; ; play-against play-with-ball ; ;
cry : weinen
  person ; ; - ; place ; loudly quietly
smile : lächeln
  person ; ; - ; ;
dream : träumen
  person ; ; dream-of ; ;
think/thought/thought : denken denkt dachte gedacht haben
  person ; ; think-of ; ;
bark : bellen
  dog ; ; - ; place ; loudly
swim/swam/swum : schwimmen schwimmt schwamm geschwommen sein
  person ; ; in-water - ; ; slowly well
  dog duck goose horse ; ; in-water through-river ; ; slowly
sit/sat/sat : sitzen sitzt saß gesessen haben
  person ; ; on-seat in at-window under-tree next-to ; with ; posture
  small ; ; place at-window ; ; posture
stand/stood/stood : stehen steht stand gestanden haben
  person ; ; in behind in-front-of next-to at-window ; ; posture
  large ; ; in-outdoor behind in-front-of next-to ; ; posture
  road bicycle ; ; behind in-front-of next-to ; ; posture
  upright ; ; on-table next-to-thing ; ; posture
  building ; ; in-town next-to ; ; state
lie/lay/lain : liegen liegt lag gelegen haben
  flat ; ; on-table under-furniture on-seat in-cupboard ; ; posture
  small ; ; on-seat on-carpet under-furniture under-tree ; ; posture
hang/hung/hung : hängen hängt hing gehangen haben
  picture clock ; ; on-wall ; ; state
live : wohnen
  person ; ; in-house in-town live-with next-to ; ; state
stay/stayed/stayed : bleiben bleibt blieb geblieben sein
  person ; ; in live-with ; ;
  small ; ; in-house ; ;
run/ran/run : laufen läuft lief gelaufen sein
  person pet large hare fox squirrel mouse ; ; into through across to-goal out around ; with ; quickly slowly
go/went/gone : gehen geht ging gegangen sein
  person ; ; into through across to-person out ; with without ; quickly slowly
come/came/come : kommen kommt kam gekommen sein
  person ; ; into to-person out ; with without ;
  small ; ; into out ; ;
come/came/come back : zurück|kommen kommt kam gekommen sein
  person ; ; - ; ;
travel/travelled/travelled : reisen reist reiste gereist sein
  person ; ; into-town through-town ; by with without ;
drive/drove/driven : fahren fährt fuhr gefahren sein
  adult old ; ; into-town through-town across to-goal ; with without ; quickly slowly carefully
ride/rode/ridden : reiten reitet ritt geritten sein
  man woman boy girl king queen prince princess farmer hunter soldier ; ; through across ; with ; quickly slowly
fly/flew/flown : fliegen fliegt flog geflogen sein
  flier ; ; over out-garden ; ; quickly slowly
  air ; ; over ; ;
jump : springen springt sprang gesprungen sein
  cat dog monkey squirrel rabbit ; ; onto in-water-direction ; ; quickly
  person ; ; in-water-direction ; ;
climb : klettern klettert kletterte geklettert sein
  cat monkey squirrel boy girl child thief ; ; onto-roof onto-tree ; ; quickly slowly carefully
fall/fell/fallen : fallen fällt fiel gefallen sein
  fruit ; ; from-tree ; ;
disappear : ver*schwinden verschwindet verschwand verschwunden sein
  person animal ; ; - in-forest ; ;
arrive : an|kommen kommt kam gekommen sein
  person ; ; - in-town ; with ;
  public ; ; - ; ;
stop/stopped/stopped : halten hält hielt gehalten haben
  road tram ; ; in-front-of ; ;
get/got/got up : auf|stehen steht stand gestanden sein
  person ; ; - ; ; quickly slowly
wake/woke/woken up : auf|wachen wacht wachte gewacht sein
  person pet large ; ; - ; ;
fall/fell/fallen asleep : ein|schlafen schläft schlief geschlafen sein
  person pet large ; ; - ; place ;
grow/grew/grown : wachsen wächst wuchs gewachsen sein
  plant ; ; in-garden next-to ; ;
bloom : blühen
  bloom ; ; in-garden ; ;
shine/shone/shone : scheinen scheint schien geschienen haben
  sun ; ; - ; ;
taste : schmecken
  food dish ; ; taste ; ; state
smell/smelled/smelled : riechen riecht roch gerochen haben
  food dish bloom hot ; ; taste ; ; state
read/read/read : lesen liest las gelesen haben
  person ; accusative: text ; - ; place ; slowly quietly
write/wrote/written : schreiben schreibt schrieb geschrieben haben
  person ; accusative: written ; - ; place ; quickly slowly
  person ; both: letter message poem ; - ; ;
eat/ate/eaten : essen isst aß gegessen haben
  person ; accusative: food dish ; - ; place with ; quickly slowly
drink/drank/drunk : trinken trinkt trank getrunken haben
  person ; accusative: drink ; - ; place with ; quickly slowly
  person ; accusative: hot ; without-milk ; ;
  large pet ; accusative: water milk ; - ; ;
buy/bought/bought : kaufen
  person ; accusative: food drink clothing device book newspaper bicycle car picture bloom luggage ; - ; for in-shop ;
  person ; accusative: furniture ; - ; for ;
sell/sold/sold : ver*kaufen
  person ; accusative: food drink clothing car bicycle boat house picture horse cow goat pig ; - ; ;
  person ; both: car bicycle boat picture horse cow clock ; - ; ;
see/saw/seen : sehen sieht sah gesehen haben
  person ; accusative: person animal vehicle landmark flower ; - ; place ;
  small large ; accusative: person animal ; - ; ;
hear/heard/heard : hören
  person ; accusative: person song bird dog radio train ; - ; ;
love : lieben
  person ; accusative: person pet city song sea ; - ; ; state
know/knew/known : kennen kennt kannte gekannt haben
  person ; accusative: person text song town museum castle hotel ; - ; ; state
visit : be*suchen besucht besuchte besucht haben
  person ; accusative: person museum castle church city theatre village library ; - ; with without ;
find/found/found : finden findet fand gefunden haben
  person ; accusative: small-thing small toy luggage letter book clothing ; - ; place ; quickly
look for : suchen
  person ; accusative: small-thing small person luggage book clothing hotel ; - ; place ;
look at : an|sehen sieht sah gesehen haben
  person ; accusative: picture person animal castle church clothing ; - ; ;
build/built/built : bauen
  man farmer father king uncle grandfather neighbour ; accusative: built boat ; - ; for ; quickly slowly
paint : malen
  painter child girl boy sister student ; accusative: picture animal plant bridge ; - ; place ;
repair : reparieren
  adult ; accusative: vehicle device chair clock roof ; - ; for ; carefully quickly
wash : waschen wäscht wusch gewaschen haben
  person ; accusative: clothing car fruit tomato carrot ; - ; ; carefully slowly
cook : kochen
  person ; accusative: cooked ; - ; for with place ;
bake : backen backt backte gebacken haben
  person ; accusative: baked ; - ; for with ;
carry : tragen trägt trug getragen haben
  person ; accusative: luggage chair table lamp bottle suitcase child ; into out - ; ; carefully slowly
wear/wore/worn : tragen trägt trug getragen haben
  person ; accusative: clothing ; - ; ;
catch/caught/caught : fangen fängt fing gefangen haben
  cat fox wolf ; accusative: mouse bird hare rabbit ; - ; ;
  person ; accusative: toy thief rabbit goose ; - ; ; quickly
chase : jagen
  hunts cat ; accusative: prey ; through - ; ;
  hunter ; accusative: hare fox wolf bear duck ; - ; ;
bite/bit/bitten : beißen beißt biss gebissen haben
  dog wolf fox donkey goose ; accusative: person pet ; - ; ;
feed/fed/fed : füttern füttert fütterte gefüttert haben
  person ; accusative: pet horse cow goat pig duck donkey bird ; - ; place ;
ask : fragen
  person ; accusative: person ; - ; ;
forget/forgot/forgotten : ver*gessen vergisst vergaß vergessen haben
  person ; accusative: small-thing luggage book letter clothing poem ; - ; ;
lose/lost/lost : ver*lieren verliert verlor verloren haben
  person ; accusative: small-thing luggage book letter clothing toy ; - ; place ;
break/broke/broken : zer*brechen zerbricht zerbrach zerbrochen haben
  person cat monkey ; accusative: dishes vase bottle ; - ; ;
steal/stole/stolen : stehlen stiehlt stahl gestohlen haben
  thief boy soldier ; accusative: car bicycle picture clock small-thing luggage ; - ; ;
  fox monkey squirrel ; accusative: egg apple pear cherry ; - ; ;
open : auf|machen macht machte gemacht haben
  person ; accusative: opening suitcase bottle bag letter cupboard ; - ; ; carefully quickly quietly
close : zu|machen macht machte gemacht haben
  person ; accusative: opening suitcase bag bottle cupboard ; - ; ; carefully quickly quietly
turn on : ein|schalten schaltet schaltete geschaltet haben
  person ; accusative: device ; - ; ;
turn off : aus|schalten schaltet schaltete geschaltet haben
  person ; accusative: device ; - ; ;
invite : ein|laden lädt lud geladen haben
  person ; accusative: person ; - ; ;
call : an|rufen ruft rief gerufen haben
  person ; accusative: person ; - ; ;
pick up : ab|holen holt holte geholt haben
  adult old ; accusative: child boy girl son daughter friend guest tourist sister brother pupil ; - ; ;
tidy : auf|räumen räumt räumte geräumt haben
  person ; accusative: room ; - ; ; quickly slowly
put/put/put on : an|ziehen zieht zog gezogen haben
  person ; accusative: coat shirt dress jacket shoe ; - ; ; quickly slowly
take/took/taken off : aus|ziehen zieht zog gezogen haben
  person ; accusative: coat shirt dress jacket shoe ; - ; ; quickly slowly
bring/brought/brought back : zurück|bringen bringt brachte gebracht haben
  person ; accusative: book small-thing luggage bicycle ; - ; ;
understand/understood/understood : ver*stehen versteht verstand verstanden haben
  person ; accusative: text person ; - ; ;
meet/met/met : treffen trifft traf getroffen haben
  person ; accusative: person ; - ; place ;
greet : grüßen
  person ; accusative: person ; - ; ; politely loudly
kiss : küssen
  adult prince princess ; accusative: woman man child mother father grandmother princess prince daughter son ; - ; ;
hug/hugged/hugged : um*armen
  person ; accusative: person ; - ; ;
admire : be*wundern
  person ; accusative: picture castle church singer painter poet garden ; - ; ;
photograph : fotografieren
  person ; accusative: person animal landmark flower ; - ; place ;
clean : putzen
  person ; accusative: opening shoe kitchen lamp ; - ; ; carefully slowly
count : zählen
  person ; accusative: +bottle +glass +plate +chair +cow +goose +bird +tree +book +egg +apple ; - ; ; slowly quickly
collect : sammeln
  person ; accusative: +stone +clock +poem +picture +book +vase ; - ; ;
push : schieben schiebt schob geschoben haben
  person ; accusative: bicycle car motorcycle ; across through - ; ; slowly
pull : ziehen zieht zog gezogen haben
  man woman farmer boy ; accusative: boat suitcase ; across through - ; ; slowly
plant : pflanzen
  gardener farmer woman man grandmother grandfather neighbour aunt ; accusative: plant ; - ; place-garden ;
pick : pflücken
  person ; accusative: fruit bloom ; - ; for ;
throw/threw/thrown : werfen wirft warf geworfen haben
  person ; accusative: ball stone ; in-water-direction onto-roof ; ;
put/put/put : legen
  person ; accusative: flat ; onto-table onto-bed under-furniture-direction into-cupboard ; ; carefully
put/put/put : stellen
  person ; accusative: upright ; onto-table into-cupboard ; ; carefully
  person ; accusative: furniture ; next-to-window into-room ; ;
hang/hung/hung : hängen hängt hängte gehängt haben
  person ; accusative: picture clock ; onto-wall ; ; carefully
need : brauchen
  person ; accusative: thing bicycle car clothing device ; - ; ; state
receive : be*kommen bekommt bekam bekommen haben
  person ; accusative: letter message book picture newspaper ; from-person ; ;
have/had/had : haben hat hatte gehabt haben
  person ; accusative: pet bicycle car boat garden house device horse brother sister friend ; - ; ; state indefinite
help : helfen hilft half geholfen haben
  person ; dative: person ; - ; place ;
follow : folgen folgt folgte gefolgt sein
  person pet ; dative: person pet ; into through - ; ; quickly slowly quietly
thank : danken
  person ; dative: person ; - ; ; politely
answer : antworten
  person ; dative: person ; - ; ; politely quickly
trust : ver*trauen vertraut vertraute vertraut haben
  person ; dative: person ; - ; ; state
congratulate : gratulieren
  person ; dative: person ; - ; ;
listen to : zu|hören hört hörte gehört haben
  person ; dative: person ; - ; ;
belong to : ge*hören gehört gehörte gehört haben
  thing clothing car bicycle house garden boat ; dative: person ; - ; ; state
give/gave/given : geben gibt gab gegeben haben
  person ; both: thing book letter newspaper food drink bloom ; - ; ;
show/showed/shown : zeigen
  person ; both: thing picture garden house text town museum ; - ; ;
send/sent/sent : schicken
  person ; both: letter message report picture book bloom ; - ; ;
lend/lent/lent : leihen leiht lieh geliehen haben
  person ; both: bicycle car boat book clothing umbrella suitcase ; - ; ;
tell/told/told : er*zählen
  person ; both: told ; - ; ;
bring/brought/brought : bringen bringt brachte gebracht haben
  person ; both: thing food drink dish bloom newspaper letter ; - ; ;
believe : glauben
know/knew/known : wissen weiß wusste gewusst haben
hope : hoffen
try/tried/tried : ver*suchen versucht versuchte versucht haben
be/was/been : sein ist war gewesen sein
rain : regnen regnet regnete geregnet haben
snow : schneien
"""


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb with its principal parts in both languages; of the German ones only the participle has its prefix."""

    english: str
    past: str
    past_participle: str
    particle: str
    infinitive: str
    third: str
    preterite: str
    participle: str
    auxiliary: str
    prefix: str


@dataclass(frozen=True, eq=False)
class Frame:
    """One way to use a verb: which nouns may stand where."""

    verb: Verb
    subjects: tuple[str, ...]
    case: str
    objects: tuple[str, ...]
    directed: tuple[str, ...]
    free: tuple[str, ...]
    manners: tuple[str, ...]
    flags: frozenset[str]


def _english_parts(text: str) -> tuple[str, str, str, str]:
    forms, _, particle = text.partition(" ")
    base, *irregular = forms.split("/")
    if irregular:
        return base, irregular[0], irregular[1], particle
    if base.endswith("y") and base[-2] not in "aeiou":
        past = base[:-1] + "ied"
    else:
        past = base + ("d" if base.endswith("e") else "ed")
    return base, past, past, particle


def _german_parts(text: str) -> tuple[str, str, str, str, str, str]:
    infinitive, *irregular = text.split()
    prefix, _, infinitive = infinitive.rpartition("|")
    plain = infinitive.replace("*", "")
    if irregular:
        third, preterite, participle, auxiliary = irregular
        return plain, third, preterite, prefix + participle, auxiliary, prefix
    stem = plain[:-2] if plain.endswith("en") else plain[:-1]
    bridge = "e" if stem.endswith(("t", "d")) else ""
    without_ge = "*" in infinitive or plain.endswith("ieren")
    participle = ("" if without_ge else "ge") + stem + bridge + "t"
    return plain, stem + bridge + "t", stem + bridge + "te", prefix + participle, "haben", prefix


def _read_verbs() -> tuple[dict[str, Verb], tuple[Frame, ...]]:
    verbs, frames, verb = {}, [], None
    for line in _VERBS.split("\n")[1:-1]:
        if not line.startswith(" "):
            english, _, german = line.partition(" : ")
            verb = Verb(*_english_parts(english), *_german_parts(german))
            verbs[f"{verb.english} {verb.particle}".strip() + "/" + verb.prefix + verb.infinitive] = verb
            continue
        assert verb is not None
        subjects, target, directed, free, rest = (part.strip() for part in line.split(";"))
        case, _, objects = target.partition(":")
        words = rest.split()
        frames.append(Frame(
            verb, tuple(subjects.split()), case, tuple(objects.split()), tuple(directed.split()), tuple(free.split()),
            tuple(word for word in words if word in MANNERS), frozenset(word for word in words if word not in MANNERS),
        ))  # fmt: skip
    return verbs, tuple(frames)


VERBS, FRAMES = _read_verbs()
