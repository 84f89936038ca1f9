"""English word lists: function words, words about sources, negations, irregular forms, numbers."""

_STOP = """a about above after again all also am an and any are as at be because been before being
    below between both but by can could did do does doing done down during each else etc few for
    from further had has have having he hence her here hers herself him himself his how however i
    if in into is it its itself just may me might mine more most must my myself no nor not now of
    off on once one ones only or other our ours ourselves out over own same shall she should so
    some such than that the their theirs them themselves then there therefore these they this
    those through thus to too under until up us very was we were what when where which while who
    whom whose why will with would you your yours yourself cannot"""
STOP_WORDS = frozenset(_STOP.split())

# Words about the sources or the answer itself: nearly no claim about the world.
_META = """according additionally also answer article based conclusion context document documents
    example following furthermore given however important include includes including information
    mention mentioned moreover note overall passage passages provide provided question source
    sources steps summary text certainly hope sure yes"""
META_WORDS = frozenset(_META.split())

_NEGATING = """not no never none cannot neither nor without nothing nobody unable lack lacks fail
    fails failed"""
NEGATIONS = frozenset(_NEGATING.split())

IRREGULAR = {
    "began": "begin", "begun": "begin", "became": "becom", "bought": "buy", "broke": "break",
    "broken": "break", "brought": "bring", "built": "build", "came": "com", "caught": "catch",
    "children": "child", "chose": "choos", "chosen": "choos", "drawn": "draw", "drew": "draw",
    "fallen": "fall", "feet": "foot", "fell": "fall", "felt": "feel", "found": "find",
    "gave": "giv", "given": "giv", "gone": "go", "got": "get", "grew": "grow", "grown": "grow",
    "held": "hold", "kept": "keep", "knew": "know", "known": "know", "led": "lead",
    "left": "leav", "lost": "los", "made": "mak", "meant": "mean", "men": "man", "paid": "pay",
    "people": "person", "ran": "run", "risen": "ris", "rose": "ris", "said": "say",
    "sang": "sing", "saw": "see", "seen": "see", "shown": "show", "sold": "sell",
    "spent": "spend", "spoke": "speak", "spoken": "speak", "sung": "sing", "taken": "tak",
    "taught": "teach", "teeth": "tooth", "thought": "think", "took": "tak", "went": "go",
    "used": "use", "using": "use", "women": "woman", "won": "win", "written": "writ",
    "wrote": "writ",
}  # fmt: skip

_UNITS = """two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen"""  # "one" is mostly a pronoun
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
NUMBER_WORDS = {
    "zero": "0",
    **{word: str(value) for value, word in enumerate(_UNITS.split(), 2)},
    **{word: str(10 * tens) for tens, word in enumerate(_TENS.split(), 2)},
}
