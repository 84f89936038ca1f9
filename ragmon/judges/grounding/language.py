"""Language of a text, as far as needed to refuse comparing two languages by words."""

import unicodedata

from ragmon.judges.grounding.lexicon import STOP_WORDS
from ragmon.judges.grounding.words import TOKEN

_SAMPLE_CHARACTERS = 1_200
_LEAST_HITS = 3.0
_LEAST_SHARE = 0.15
"""Of function words. Prose in a listed language has 0.25 to 0.5; names and lists have none."""

_FOREIGN = {
    "de": "der die das und ist nicht ein eine zu den mit von für auf im dem sich des auch werden",
    "fr": "le la les des du de et en un une est dans pour que qui au sur par pas sont avec ce",
    "es": "el la los las de del que y en un una por con para es se su al como no más son "
    "dos lo le sin pero también cuando hay fue hasta desde según tiene puede muy cada entre sobre",
    "it": "il lo gli di che e è per un una con non del della dei in si sono da come nel alla",
    "pt": "o os as de da do dos que e em um uma para com não é se por na no mais como são "
    "ao à às das nos nas pelo pela sem mas também quando há foi até desde tem pode cada entre",
    "nl": "de het een en van is dat op te in voor met niet zijn aan door ook bij als worden",
    "sv": "och att det som en på är av för med den till inte om ett har i de kan från",
    "pl": "i w na z nie się że do to jest o jak po za od przez dla są oraz by",
    "tr": "ve bir bu da de için ile olarak çok daha en gibi olan var ne kadar sonra ise ya",
}


def _languages_of() -> dict[str, tuple[str, ...]]:
    by_word: dict[str, tuple[str, ...]] = dict.fromkeys(STOP_WORDS, ("en",))
    for language, words in _FOREIGN.items():
        for word in words.split():
            by_word[word] = (*by_word.get(word, ()), language)
    return by_word


_LANGUAGES_OF = _languages_of()
_SCRIPTS = (
    (0x0370, 0x03FF, "greek"),
    (0x0400, 0x052F, "cyrillic"),
    (0x0530, 0x058F, "armenian"),
    (0x0590, 0x05FF, "hebrew"),
    (0x0600, 0x06FF, "arabic"),
    (0x10A0, 0x10FF, "georgian"),
    (0xAC00, 0xD7AF, "hangul"),
)


def language_of(text: str) -> str | None:
    """A language code, or a script where that says enough; None if the text does not tell."""
    sample = unicodedata.normalize("NFC", text[:_SAMPLE_CHARACTERS])  # as the words above are
    tokens = TOKEN.findall(sample.lower())
    hits: dict[str, float] = {"en": 0.0}
    for token in tokens:
        if token in _LANGUAGES_OF:
            for language in _LANGUAGES_OF[token]:
                hits[language] = hits.get(language, 0.0) + 1.0
        elif not token.isascii() and (script := _script_of(token)):
            # A letter is better evidence than a function word, but every word has some.
            hits[script] = hits.get(script, 0.0) + 0.5
    best = max(hits, key=lambda language: hits[language])  # English wins a tie.
    enough = max(_LEAST_HITS, _LEAST_SHARE * len(tokens))
    if best != "en" and hits[best] < 2.0 * hits["en"]:
        return "en" if hits["en"] >= enough else None
    if best != "en" and sum(count == hits[best] for count in hits.values()) > 1:
        return None  # words that several languages share do not tell them apart
    return best if hits[best] >= enough else None


def _script_of(token: str) -> str | None:
    code = ord(token[0])
    return next((name for low, high, name in _SCRIPTS if low <= code <= high), None)
