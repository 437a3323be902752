"""The words of the sample corpus, as tables a person can read and correct.

Nouns:       english[/plural]  German/plural  gender  tags       (tags say what the noun may do and be)
Adjectives:  english  German  tags of the nouns it may describe  [German comparative, English comparative]
Verbs:       english : German, then one indented line per frame
             subjects ; object ; directed phrases ; free phrases ; manners and flags

Every English word belongs to one part of speech, so that German never has to guess.
"""

from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun with the forms that no rule gives; `tags` hold its kinds and, where they apply, weak, es and mass."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: str
    tags: frozenset[str]


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective, the kinds of nouns it suits, and its comparative where the corpus compares with it."""

    english: str
    german: str
    suits: frozenset[str]
    comparative: tuple[str, str] | None


_NOUNS = """
man/men Mann/Männer m person adult es
woman/women Frau/Frauen f person adult
child/children Kind/Kinder n person own es little
boy Junge/Jungen m person weak little
girl Mädchen/Mädchen n person little
teacher Lehrer/Lehrer m person adult own
doctor Arzt/Ärzte m person adult es
neighbour Nachbar/Nachbarn m person adult own weak
student Student/Studenten m person adult weak
pupil Schüler/Schüler m person little
friend Freund/Freunde m person adult own es
brother Bruder/Brüder m person own kin little
sister Schwester/Schwestern f person own kin little
mother Mutter/Mütter f person adult own kin single
father Vater/Väter m person adult own kin single
grandmother Großmutter/Großmütter f person old own kin single
grandfather Großvater/Großväter m person old own kin single
uncle Onkel/Onkel m person adult own kin
aunt Tante/Tanten f person adult own kin
son Sohn/Söhne m person own es kin little
daughter Tochter/Töchter f person own kin little
king König/Könige m person adult
queen Königin/Königinnen f person adult
prince Prinz/Prinzen m person weak little
princess Prinzessin/Prinzessinnen f person
baker Bäcker/Bäcker m person adult
farmer Bauer/Bauern m person adult weak
singer Sänger/Sänger m person adult
painter Maler/Maler m person adult
hunter Jäger/Jäger m person adult
guest Gast/Gäste m person adult own es
policeman/policemen Polizist/Polizisten m person adult weak
colleague Kollege/Kollegen m person adult own weak
tourist Tourist/Touristen m person adult weak
soldier Soldat/Soldaten m person adult weak
gardener Gärtner/Gärtner m person adult
waiter Kellner/Kellner m person adult
thief/thieves Dieb/Diebe m person adult es
poet Dichter/Dichter m person adult
cat Katze/Katzen f animal small pet own
dog Hund/Hunde m animal small pet own hunts es
horse Pferd/Pferde n animal large own es
cow Kuh/Kühe f animal large own
bird Vogel/Vögel m animal prey flier
mouse/mice Maus/Mäuse f animal small prey
bear Bär/Bären m animal large hunts weak
hare Hase/Hasen m animal prey weak
rabbit Kaninchen/Kaninchen n animal small pet prey own
fox Fuchs/Füchse m animal hunts
wolf/wolves Wolf/Wölfe m animal large hunts
goat Ziege/Ziegen f animal large own
pig Schwein/Schweine n animal large own
duck Ente/Enten f animal prey flier
goose/geese Gans/Gänse f animal prey flier
lion Löwe/Löwen m animal large hunts weak
tiger Tiger/Tiger m animal large hunts
monkey Affe/Affen m animal weak
elephant Elefant/Elefanten m animal large weak
donkey Esel/Esel m animal large own
squirrel Eichhörnchen/Eichhörnchen n animal prey
apple Apfel/Äpfel m food fruit piece
cake Kuchen/Kuchen m food baked piece
egg Ei/Eier n food cooked piece
banana Banane/Bananen f food piece
potato/potatoes Kartoffel/Kartoffeln f food cooked piece
carrot Karotte/Karotten f food cooked piece
tomato/tomatoes Tomate/Tomaten f food piece
pear Birne/Birnen f food fruit piece
cherry Kirsche/Kirschen f food fruit piece
orange Orange/Orangen f food fruit piece
sausage Wurst/Würste f food piece
bread Brot/Brot n food baked mass
cheese Käse/Käse m food mass
soup Suppe/Suppen f dish cooked mass
water Wasser/Wasser n drink mass
milk Milch/Milch f drink mass
coffee Kaffee/Kaffee m drink hot mass
tea Tee/Tee m drink hot mass
beer Bier/Bier n drink mass
wine Wein/Wein m drink mass
juice Saft/Saft m drink mass
book Buch/Bücher n text flat own thing
newspaper Zeitung/Zeitungen f text flat own
letter Brief/Briefe m text written flat own
poem Gedicht/Gedichte n text written work
story Geschichte/Geschichten f text told written work
novel Roman/Romane m text written work
report Bericht/Berichte m text written
message Nachricht/Nachrichten f text written
song Lied/Lieder n song work
picture Bild/Bilder n picture own
car Auto/Autos n vehicle road own landmark
bicycle Fahrrad/Fahrräder n vehicle own
motorcycle Motorrad/Motorräder n vehicle road own
bus Bus/Busse m vehicle road public
train Zug/Züge m vehicle public
ship Schiff/Schiffe n vehicle afloat
boat Boot/Boote n vehicle own afloat
tram Straßenbahn/Straßenbahnen f vehicle public
plane Flugzeug/Flugzeuge n vehicle air
house Haus/Häuser n building indoor landmark own built
school Schule/Schulen f building indoor landmark built own
church Kirche/Kirchen f building indoor landmark built
shop Laden/Läden m building indoor
hotel Hotel/Hotels n building indoor landmark built
restaurant Restaurant/Restaurants n building indoor
museum Museum/Museen n building indoor landmark
theatre Theater/Theater n building indoor landmark
hospital Krankenhaus/Krankenhäuser n building indoor landmark built
library Bibliothek/Bibliotheken f building indoor
castle Schloss/Schlösser n building indoor landmark built
kitchen Küche/Küchen f room indoor own
room Zimmer/Zimmer n room indoor own
office Büro/Büros n room indoor own
cellar Keller/Keller m room indoor own
garden Garten/Gärten m outdoor own
park Park/Parks m outdoor
forest Wald/Wälder m outdoor
village Dorf/Dörfer n outdoor town
city Stadt/Städte f outdoor town
station Bahnhof/Bahnhöfe m building goal landmark
bridge Brücke/Brücken f goal span built
street Straße/Straßen f span
meadow Wiese/Wiesen f field
lake See/Seen m waters
river Fluss/Flüsse m waters
sea Meer/Meere n waters deep
table Tisch/Tische m thing furniture surface own
chair Stuhl/Stühle m thing furniture seat own
bench Bank/Bänke f seat
sofa Sofa/Sofas n seat surface furniture own
bed Bett/Betten n seat surface furniture own
cupboard Schrank/Schränke m cupboard
carpet Teppich/Teppiche m carpet own
roof Dach/Dächer n roof
wall Wand/Wände f wall
window Fenster/Fenster n opening window
door Tür/Türen f opening
lamp Lampe/Lampen f thing device own
radio Radio/Radios n device own
computer Computer/Computer m device own
cup Tasse/Tassen f thing upright dishes own
glass Glas/Gläser n thing upright dishes own
bottle Flasche/Flaschen f thing upright own
plate Teller/Teller m thing upright dishes own
vase Vase/Vasen f thing upright own
key Schlüssel/Schlüssel m thing small-thing flat own
ball Ball/Bälle m thing toy own
stone Stein/Steine m stone
bag Tasche/Taschen f thing luggage own
suitcase Koffer/Koffer m thing luggage own
umbrella Regenschirm/Regenschirme m thing small-thing own
clock Uhr/Uhren f thing own
coat Mantel/Mäntel m clothing flat own
hat Hut/Hüte m clothing flat own
shirt Hemd/Hemden n clothing flat own
dress Kleid/Kleider n clothing flat own
jacket Jacke/Jacken f clothing flat own
shoe Schuh/Schuhe m clothing own
tree Baum/Bäume m plant landmark tree
flower Blume/Blumen f plant bloom
rose Rose/Rosen f plant bloom
sun Sonne/Sonnen f sky
"""

_ADJECTIVES = """
big groß animal building vehicle thing outdoor plant piece stone roof größer bigger
small klein animal building room vehicle thing outdoor plant piece stone little kleiner smaller
old alt adult old animal building room vehicle thing clothing text song bench tree bridge town picture älter older
young jung adult animal jünger younger
new neu building room vehicle thing clothing text song device bridge
tired müde person animal
happy glücklich person
sad traurig person story song poem novel
hungry hungrig person animal
friendly freundlich person freundlicher friendlier
clever klug person animal klüger cleverer
strong stark adult animal stärker stronger
rich reich adult reicher richer
poor arm adult ärmer poorer
famous berühmt adult building work picture
sick krank person animal
lazy faul person animal
brave mutig person mutiger braver
polite höflich person
angry wütend person
curious neugierig person
wild wild animal
fast schnell vehicle large schneller faster
dangerous gefährlich hunts span waters
white weiß animal vehicle thing clothing bloom
black schwarz animal vehicle thing clothing
brown braun animal clothing furniture luggage
grey grau animal clothing luggage
red rot vehicle thing clothing bloom
blue blau vehicle thing clothing
yellow gelb vehicle clothing thing bloom
green grün vehicle clothing thing outdoor
beautiful schön clothing picture song building garden town waters bloom meadow schöner more-beautiful
expensive teuer car bicycle motorcycle boat hotel restaurant clothing device furniture luggage teurer more-expensive
cheap billig clothing device hotel restaurant luggage billiger cheaper
heavy schwer luggage furniture stone schwerer heavier
round rund table stone toy window plate vase
broken kaputt vehicle device dishes toy clock umbrella chair
dirty schmutzig vehicle clothing dishes luggage window
fresh frisch food bread milk
warm warm dish clothing milk bread room
cold kalt drink dish waters
hot heiß hot dish
sweet süß fruit cake wine juice banana
delicious lecker food dish
good gut text song work wine restaurant
long lang written song river street
short kurz written song street
interesting interessant text museum interessanter more-interesting
boring langweilig text langweiliger more-boring
modern modern building device
quiet ruhig building town park street ruhiger quieter
dark dunkel room forest street church castle dunkler darker
empty leer building room upright luggage cupboard street
deep tief waters
"""


def _regular_plural(english: str) -> str:
    if english.endswith("y") and english[-2] not in "aeiou":
        return english[:-1] + "ies"
    return english + ("es" if english.endswith(("s", "x", "ch", "sh")) else "s")


def _read_nouns() -> dict[str, Noun]:
    nouns = {}
    for line in _NOUNS.split("\n")[1:-1]:
        english, german, gender, *tags = line.split()
        singular, _, plural = english.partition("/")
        german_singular, _, german_plural = german.partition("/")
        nouns[singular] = Noun(
            singular,
            plural or _regular_plural(singular),
            german_singular,
            german_plural,
            gender,
            frozenset((singular, *tags)),
        )
    return nouns


def _read_adjectives() -> dict[str, Adjective]:
    tags = {tag for noun in NOUNS.values() for tag in noun.tags}
    adjectives = {}
    for line in _ADJECTIVES.split("\n")[1:-1]:
        english, german, *rest = line.split()
        comparative = None
        if rest[-1] not in tags:
            *rest, german_comparative, english_comparative = rest
            comparative = (english_comparative.replace("-", " "), german_comparative)
        adjectives[english] = Adjective(english, german, frozenset(rest), comparative)
    return adjectives


NOUNS = _read_nouns()
ADJECTIVES = _read_adjectives()


def nouns_tagged(*tags: str) -> tuple[Noun, ...]:
    """The nouns that carry any of these tags (a noun's own English word is one of its tags), in table order."""
    return tuple(noun for noun in NOUNS.values() if noun.tags.intersection(tags))
