"""Words that imagined tasks are made of, and names made up from syllables."""

from __future__ import annotations

from random import Random


def _words(text: str) -> list[str]:
    return text.split()


THINGS = _words(
    "house car flat patient customer loan student player film song recipe wine coffee bridge river lake tree flower "
    "bird fish horse farm field crop well pump engine battery sensor robot server order ticket parcel ship train bus "
    "bicycle taxi driver store shop market auction painting coin stamp book letter poem article comment message email "
    "tweet question answer complaint invoice contract policy claim account station garden school course exam teacher "
    "company startup job worker team match race runner city district village road tunnel storm quake star galaxy "
    "planet crystal alloy molecule protein cell gene tumour nurse clinic drug diet meal cheese beer tea phone laptop "
    "camera watch shoe shirt sofa lamp window roof wall concrete beam turbine panel meter boiler plant reactor"
)

MEASURES = _words(
    "age weight height width length depth area volume speed power energy voltage current pressure humidity density "
    "mass income salary cost fee balance debt credit score rank level grade points goals wins losses shots steps "
    "distance duration delay altitude slope latitude longitude angle radius diameter thickness hardness acidity sugar "
    "alcohol protein fat salt calcium iron zinc carbon nitrogen oxygen rainfall snow wind cloud sun heat noise light "
    "signal frequency phase mileage year doors seats rooms floors beds baths garage lot tax crime pupils staff budget "
    "revenue profit assets shares volume open high low close clicks views likes followers visits sessions orders "
    "items returns quantity stock discount margin tenure children adults members dose pulse glucose insulin bmi "
    "cholesterol platelets hemoglobin temperature moisture clay sand silt ph flow turbidity depth_cm"
)

LABELS = _words(
    "color shape type class category brand model make region city state country county zone district street gender "
    "status stage quality condition material fabric texture season weekday weather genre language currency channel "
    "segment sector industry department branch title role degree school club league position surface habitat species "
    "breed variety origin source device browser plan package payment method reason priority severity fuel drive "
    "transmission body trim roof heating kitchen view soil crop port carrier route vendor supplier agency"
)

TEXTS = _words(
    "text comment message body description title headline summary abstract note question answer tweet email subject "
    "sentence paragraph lyrics transcript feedback complaint story caption name query remark report essay post"
)

DATES = _words("date day datetime timestamp date_time period when start_date end_date order_date sale_date time_start")
TIMED = _words("time datetime timestamp date_time start_time measured_time log_time")

NUMBER_TARGETS = _words(
    "price cost value amount sales income rent yield output load usage consumption traffic visitors passengers rating "
    "score strength level temperature rainfall wage fare duration distance weight age height count volume emissions "
    "loss profit revenue tips share premium life mileage speed quantity total rate waiting_time"
)
BINARY_TARGETS = _words(
    "churn default fraud spam sick survived sold accepted passed won clicked returned cancelled late positive toxic "
    "approved renewed failed hired married smoker rain male female dog winner popular expensive healthy relapse"
)
CLASS_TARGETS = _words(
    "class label species kind genre category type letter symbol shape activity gesture author topic language quality "
    "grade stage crop variety cluster section group diagnosis cuisine style phase zone"
)
CLASSES = _words(
    "red green blue north south east west low high middle small large early late rock jazz folk pop oak pine birch "
    "walk run sit stand news sport arts trade law music alpha beta gamma delta one two three four wheat rice maize "
    "rye gold silver iron copper lion wolf bear hare mild strong sweet dry young old new used urban rural coast hill"
)
UNITS = _words("minutes dollars euros metres kilograms degrees units points megawatts litres days thousands percent")

STARTS = [
    "b",
    "c",
    "d",
    "f",
    "g",
    "h",
    "j",
    "k",
    "l",
    "m",
    "n",
    "p",
    "qu",
    "r",
    "s",
    "t",
    "v",
    "w",
    "x",
    "y",
    "z",
    "bl",
    "br",
    "ch",
    "cl",
    "cr",
    "dr",
    "fl",
    "fr",
    "gl",
    "gr",
    "pl",
    "pr",
    "sc",
    "sh",
    "sl",
    "sp",
    "st",
    "tr",
    "th",
    "wh",
]
MIDDLES = _words("a e i o u a e i o u ai ea ee oo ou ie au y")
ENDS = _words(
    "b c d g k l m n p r s t w x y nd ng nt ck st rd rk lt mp ct ss ll ve te ne re le se ry ty ly al er or en on an in "
    "ic ed es ing ion ity ive ant ent ard ist ate age ure ish ness ment"
)

PREFIXES = _words("avg total num max min mean prev last first n std sum daily net raw log is has home base near cum")
SUFFIXES = _words(
    "count rate ratio index pct size code id flag level days km cm mm kg usd mean std max min total group"
)


def made_up(random: Random) -> str:
    """A made-up word, of one to three syllables: what is left of any word when its letters are unfamiliar."""
    parts = []
    for _ in range(random.choice((1, 2, 2, 3))):
        parts += [random.choice(STARTS) if random.random() < 0.85 else "", random.choice(MIDDLES)]
        parts += [random.choice(ENDS) if random.random() < 0.45 else ""]
    name = "".join(parts)
    return name if len(name) > 1 else name + random.choice(ENDS)


ALL = sorted({*THINGS, *MEASURES, *LABELS, *TEXTS, *CLASSES, *NUMBER_TARGETS, *BINARY_TARGETS, *CLASS_TARGETS, *UNITS})


def word(random: Random, pool: list[str]) -> str:
    """A word of the pool, of any pool, or one that is made up."""
    dice = random.random()
    if dice < 0.42:
        return made_up(random)
    return random.choice(pool if dice < 0.8 else ALL)


def column(random: Random, pool: list[str], style: int) -> str:
    """A column's name: one to five words, in the table's own way of writing them."""
    parts = [word(random, pool)]
    if random.random() < 0.3:
        parts.insert(0, random.choice(PREFIXES))
    if random.random() < 0.3:
        parts.append(random.choice(SUFFIXES) if random.random() < 0.6 else word(random, pool))
    while random.random() < 0.3 and len(parts) < 5:  # long names are copied too
        parts.append(word(random, ALL))
    if random.random() < 0.06:
        parts.append(str(random.choice((1, 2, 3, 5, 10, 24, 35, 50, 100))))
    return cased("_".join(parts), style)


def cased(name: str, style: int) -> str:
    """snake_case, Title_Case, CamelCase, UPPER or lowercamel, by number."""
    parts = name.split("_")
    if style == 1:
        return "_".join(part.capitalize() for part in parts)
    if style == 2:
        return "".join(part.capitalize() for part in parts)
    if style == 3:
        return name.upper()
    if style == 4:
        return parts[0] + "".join(part.capitalize() for part in parts[1:])
    return name
