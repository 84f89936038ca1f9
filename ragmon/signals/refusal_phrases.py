"""Answers that decline: those whose opening says that the sources do not tell, by language.

Rules of phrases in thirteen languages and English. They look at short answers only: a long one
that opens with what it does not know goes on to say something. Every gap is bounded, so that a
text takes linear time, and the patterns run only where RE2 finds that one of them might match.
"""

import functools
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

_MOST_ANSWER = 500  # characters; a longer answer says something besides
_OPENING = 200  # characters within which it must decline
_GAP = r"[^.!?]{0,50}"


class _Language(NamedTuple):
    negations: tuple[str, ...]  # of which one must occur
    subjects: tuple[str, ...]  # and one of these, where there are any
    patterns: tuple[re.Pattern[str], ...]


def _language(negations: str, *alternatives: str, subjects: str = "") -> _Language:
    patterns = tuple(re.compile(each) for each in alternatives)
    return _Language(
        tuple(negations.split("|")), tuple(filter(None, subjects.split("|"))), patterns
    )


_EN_SOURCE = (
    r"\b(?:documents?|documentation|passages?|context|sources?|texts?|excerpts?|articles?|"
    r"information|materials?|knowledge base)\b"
)
_EN_TELLS = (
    r"(?:\w{1,20} ){0,1}(?:contain|mention|provide|include|specify|say|state|address|cover|"
    r"discuss|answer|give|tell|describe|have)\b"
)

_LANGUAGES = (
    _language(
        " not |n't| no |cannot|unable|insufficient",
        r"\b(?:i|we)(?:'m| am| are| was)? (?:\w{1,20} ){0,2}?(?:do not|don't|cannot|can't|can not|"
        r"could not|couldn't|did not|didn't|unable to|not able to) (?:\w{1,20} ){0,1}"
        r"(?:know|find|answer|have|locate|determine|see any|help with|tell)\b(?! to\b)",
        rf"{_EN_SOURCE}{_GAP}\b(?:do|does|did)(?: not|n't) {_EN_TELLS}",
        r"\b(?:no|not enough|insufficient) (?:\w{1,20} "
        r"){0,2}(?:information|mention|details?|answer|"
        rf"results?)\b{_GAP}\b(?:context|documents?|passages?|sources?|provided|available|found|"
        r"about|on|regarding|to answer)\b",
        r"\bnot (?:mentioned|specified|provided|stated|available|found|covered|contained|included) "
        r"in (?:the|any|these|this) (?:\w{1,20} ){0,2}(?:context|"
        r"documents?|documentation|passages?|"
        r"sources?|texts?|excerpts?|articles?|information|materials?)\b",
        r"\bnot possible to answer\b",
        subjects="i |we |i'm|document|passage|context|source|text|excerpt|article|information|"
        "material|knowledge base|answer",
    ),
    _language(
        "nicht|kein|leider",
        rf"\b(?:ich|wir)\b{_GAP}\b(?:nicht|keine?n?)\b{_GAP}\b(?:beantworten|finden|gefunden|sagen|"
        r"informationen|angaben|antwort|helfen)\b",
        r"\b(?:weiß ich|ich weiß|wir wissen|das weiß ich)(?: es| das)?(?: leider)? nicht\b",
        r"\b(?:dokument\w{0,3}|kontext|quellen?|texte?n?|unterlagen|auszüge?n?|abschnitte?n?|"
        rf"passagen?)\b{_GAP}\b(?:keine?n?|nicht|"
        rf"nichts)\b{_GAP}\b(?:informationen|angaben?|hinweise?|"
        r"antwort|erwähnt|erwähnen|enthalten|hervor|genannt|beschrieben|angegeben)\b",
        r"\bkeine (?:\w{1,20} ){0,2}(?:informationen|angaben|antwort|hinweise) (?:zu|über|auf|dazu|"
        r"gefunden|vorhanden|verfügbar|vor)\b",
        r"\bliegen (?:mir|uns) (?:\w{1,20} ){0,2}keine\b",
        subjects="ich |wir |mir |uns |dokument|kontext|quelle|text|unterlage|auszug|auszüg|"
        "abschnitt|passage|informationen|angaben|das weiß",
    ),
    _language(
        " ne | n'|aucun",
        r"\bje (?:ne |n')(?:sais|trouve|dispose|connais|ai)\b[^.!?]{0,20}\b(?:pas|aucune?)\b",
        r"\bje ne (?:peux|suis)(?: malheureusement)? "
        r"pas\b[^.!?]{0,20}\b(?:répondre|déterminer|dire|"
        r"trouver)\b",
        rf"\b(?:documents?|contexte|sources?|textes?|passages?|extraits?)\b{_GAP}\b(?:ne |n')"
        r"(?:mentionne|contien|précise|indique|fourni|répond|perme|parle|donne|dise)\w{0,5}\b"
        r"[^.!?]{0,10}\b(?:pas|aucune?|rien)\b",
        rf"\baucune? (?:information|mention|réponse|"
        rf"indication)\b{_GAP}\b(?:sur|dans|concernant|n'|à)",
        r"\bn'est pas (?:indiquée?|mentionnée?|précisée?|fournie?) dans\b",
        subjects="je |document|contexte|source|texte|passage|extrait|information|mention|réponse",
    ),
    _language(
        " no |ningun",
        r"\bno (?:lo )?(?:sé\b|puedo (?:responder|contestar|encontrar|"
        r"determinar)|encuentro\b|encontré\b|"
        r"he encontrado|tengo (?:suficiente )?información|dispongo de|hay (?:suficiente )?"
        r"(?:información|mención|datos) (?:sobre|en|para|acerca|disponible))",
        rf"\b(?:documentos?|contexto|fuentes?|textos?|pasajes?|"
        rf"fragmentos?|información)\b{_GAP}\bno "
        r"(?:se )?(?:mencion|conti|inclu|especific|proporcion|"
        r"indic|respond|habla|dice|ofrec)\w{0,8}",
        r"\bno se (?:indica|menciona|especifica|proporciona)\b[^.!?]{0,40}\ben "
        r"(?:el|los|la|las|este) "
        r"(?:contexto|documentos?|fuentes?|textos?)\b",
        rf"\bninguna (?:información|mención|respuesta)\b{_GAP}\b(?:sobre|en|acerca)\b",
        subjects="sé|puedo|encuentr|encontr|tengo|dispongo|hay |documento|contexto|fuente|texto|"
        "pasaje|fragmento|información|ningun",
    ),
    _language(
        "não|nenhum",
        r"\bnão (?:sei\b|posso (?:responder|determinar)|consigo "
        r"(?:responder|encontrar)|encontrei\b|"
        r"encontro\b|tenho (?:informaç|dados)\w{0,5}|disponho de|"
        r"há (?:informaç\w{1,5}|menção|dados) "
        r"(?:sobre|n[oa]s?|suficientes|para|disponíve))",
        rf"\b(?:documentos?|contexto|fontes?|textos?|trechos?|passagens)\b{_GAP}\bnão (?:se )?"
        r"(?:mencion|cont[éê]|inclu|especific|fornec|indic|respond|fala|diz)\w{0,8}",
        rf"\bnenhuma (?:informação|menção|resposta)\b{_GAP}\b(?:sobre|n[oa]s?)\b",
    ),
    _language(
        " non |nessun",
        r"\bnon (?:lo so\b|so\b(?! che)|posso (?:rispondere|"
        r"determinare)|trovo\b|ho trovato|riesco a "
        r"(?:trovare|rispondere)|ho (?:abbastanza |sufficienti )?informazioni|dispongo di|"
        r"ci sono (?:abbastanza )?informazioni)",
        rf"\b(?:documenti|documento|contesto|fonti|testi|testo|"
        rf"passaggi|brani|estratti)\b{_GAP}\bnon "
        r"(?:si )?(?:menzion|contien|conteng|includ|specific|"
        r"fornisc|indic|rispond|parla|dic)\w{0,8}",
        rf"\bnessuna (?:informazione|menzione|risposta)\b{_GAP}\b(?:su|nel|nei|riguardo|al)",
    ),
    _language(
        "niet|geen|niets",
        rf"\b(?:ik|wij|we)\b{_GAP}\b(?:niet|geen)\b{_GAP}\b(?:vinden|"
        rf"gevonden|beantwoorden|informatie|"
        r"antwoord|zeggen|bepalen)\b",
        r"\b(?:ik weet|weet ik)(?: het| dat)?(?: helaas)? niet\b",
        r"\b(?:document(?:en)?|context|bronnen|bron|tekst(?:en)?|passages?|fragmenten)\b"
        rf"{_GAP}\b(?:geen|niet|niets)\b{_GAP}\b(?:informatie|vermeld|vermelden|antwoord|genoemd|"
        r"beschreven|staat|aangegeven)",
        r"\bstaat (?:er )?(?:niets|geen)\b",
        r"\bgeen (?:\w{1,20} ){0,2}(?:informatie|antwoord) (?:over|op|gevonden|beschikbaar|in)\b",
    ),
    _language(
        " nie |brak",
        r"\bnie (?:wiem\b|mogę (?:odpowiedzieć|znaleźć|określić)|"
        r"znalazł[ae]?m|znaleziono|znajduję|mam "
        r"(?:wystarczających )?informacji|potrafię odpowiedzieć|ma (?:żadnych )?informacji)",
        rf"\b(?:dokument\w{{0,4}}|kontek\w{{1,5}}|źród\w{{1,5}}|"
        rf"tek\w{{1,5}}|fragmen\w{{1,4}})\b{_GAP}"
        r"\bnie (?:\w{1,20} ){0,1}(?:zawiera|wspomina|podaje|podają|"
        r"określa|odpowiada|mówi|informuje|ma)\w{0,4}",
        rf"\bbrak (?:\w{{1,20}} )?informacji\b{_GAP}\b(?:o|na|w|dotyczących)\b",
    ),
    _language(
        "не |нет |неизвестно",
        r"\bне (?:знаю\b|могу (?:ответить|найти|определить|сказать)|наш[её]л|нашла|удалось найти|"
        r"располагаю|найден[ао]? (?:информац|ответ|упомин)\w{1,6}|имею информации)",
        r"\b(?:документ\w{0,4}|контекст\w{0,3}|источник\w{0,4}|"
        r"текст\w{0,4}|фрагмент\w{0,4}|отрывк\w{1,3})\b"
        rf"{_GAP}\b(?:не (?:содерж|упомин|указ|сообща|привод|говор|"
        rf"отвеча)\w{{1,8}}|нет (?:\w{{1,20}} )?"
        r"(?:информац|ответ|упоминан|сведен|данных)\w{0,4})",
        rf"\bнет (?:\w{{1,20}} )?(?:информации|сведений|данных)\b{_GAP}\b(?:о|об|в|по|для)\b",
    ),
    _language(
        "无法|無法|没有|沒有|未|不知道|抱歉|找不到",
        r"(?:无法|無法|不能)[^。！？]{0,12}(?:回答|确定|確定|找到|得知|提供答案|判断)",
        r"(?:文档|文檔|文件|资料|資料|上下文|内容|內容|段落|来源|"
        r"來源|原文|信息|文本)[^。！？]{0,16}"
        r"(?:没有|沒有|未|并未|並未|不)[^。！？]{0,4}(?:提到|提及|提供|包含|"
        r"说明|說明|涉及|记载|記載|相关|相關|给出)",
        r"(?:没有|沒有|未能?|找不到)(?:找到|足够|足夠)?[^。！？]{0,10}(?:相关|相關|有关|"
        r"有關)[^。！？]{0,6}(?:信息|資訊|内容|资料|資料|答案)",
        r"我不知道",
    ),
    _language(
        "ません|ない|なかっ|不明",
        r"(?:わかりません|分かりません|お答えできません|答えられません|"
        r"回答できません|見つかりません|"
        r"見つけられません|判断できません)",
        r"(?:文書|資料|文脈|コンテキスト|情報源|情報|記述|ドキュメント|本文|記載)[^。！？]{0,24}"
        r"(?:含まれていません|ありません|記載されていません|書かれていません|示されていません|"
        r"言及されていません|述べられていません|見当たりません|含まれていない|ない(?:ため|です))",
    ),
    _language(
        "없|않|모르|못",
        r"(?:찾을 수 없|답변할 수 없|답할 수 없|알 수 없|답변드릴 수 "
        r"없|확인할 수 없|답변을 드릴 수 없|모르겠|"
        r"찾지 못했)",
        r"(?:문서|자료|문맥|출처|정보|내용|본문|컨텍스트)[^.!?]{0,24}(?:없습니다|"
        r"없어|포함되어 있지 않|"
        r"언급되어 있지 않|언급되지 않|언급하지 않|나와 있지 않|"
        r"나오지 않|제공하지 않|명시되어 있지 않)",
    ),
    _language(
        "لا |لم |ليس|لست|يتعذر",
        r"(?:لا أعرف|لا أعلم|لا يمكنني|لا أستطيع|لا أملك|لم أجد|"
        r"لم أتمكن|ليس لدي|لست متأكد|يتعذر علي)",
        r"(?:المستند|الوثائق|الوثيقة|النص|السياق|المصادر|المقاطع|"
        r"المعلومات|المستندات|النصوص)[^.!?؟]{0,40}"
        r"(?:لا|لم) (?:ت|ي)(?:حتوي|ذكر|تضمن|وفر|حدد|شر|قدم|جب|تحدث|تناول)",
        r"(?:لا|لم) ي?ت?(?:ذكر|وضح|حدد|تضمن) (?:السياق|النص|المستند|الوثائق|المصادر)",
        r"لا (?:توجد|يوجد) (?:أي )?(?:معلومات|إجابة|ذكر)",
    ),
    _language(
        "नहीं",
        r"(?:मुझे|मैं|हमें)[^.!?।]{0,40}(?:नहीं (?:पता|मिल|दे सकत|जानत|है कि)|उत्तर नहीं)",
        r"(?:दस्तावेज़|दस्तावेज|संदर्भ|स्रोत|पाठ|अंश|जानकारी|अनुच्छेद)[^.!?।]{0,60}"
        r"(?:नहीं (?:है|हैं|दी|दिया|मिल|बताया|किया|बताते|बताता)|(?:उल्लेख|जानकारी) नहीं)",
    ),
)


_REPEATED = (
    (re.compile(r"\(\?![^)]*\)|\\b"), ""),
    (re.compile(r"\\w"), r"(?:\\w|[^\\x00-\\x7f])"),  # RE2 knows the letters of ASCII alone
    (re.compile(r"\{0,\d*\}\??"), "*"),
    (re.compile(r"\{[1-9]\d*(?:,\d*)?\}\??"), "+"),
)
"""Replacements after which a pattern matches all that it did and more, with few states in RE2."""

_WIDE_GAP = re.compile(r"\[\^\.!\?[^\]]*\][*+]")  # between two parts of a rule
_SHORT_PART = 30  # characters of one that stands in many answers, such as "nicht"

_BETWEEN = ".! "
"""Between openings in ASCII: no pattern of their languages goes on beyond it."""


def declines(answer: str) -> bool:
    """True for a short answer that opens by saying that it cannot be given.

    Args:
        answer: of any length; of a long one nothing is read.
    """
    return decline_each([answer])[0]


def decline_each(answers: Sequence[str]) -> list[bool]:
    """``declines`` of many answers, at an eighth of the time for each.

    Few decline, so all of them are searched at once for whatever the rules might match.
    """
    starts = [answer[:_OPENING] if len(answer) <= _MOST_ANSWER else "" for answer in answers]
    declined = [False] * len(starts)
    for at in _suspects(starts):
        opening = _opening(starts[at])
        declined[at] = _may_decline(opening) and _opens_declining(opening)
    return declined


def _suspects(starts: Sequence[str]) -> set[int]:
    """The positions of those that may decline."""
    suspicion = _suspicion()
    plain = [at for at, start in enumerate(starts) if start.isascii()]
    text = _BETWEEN.join([starts[at] for at in plain]).lower()
    suspects: set[int] = set()
    ends: list[int] = []
    for match in suspicion.finditer(text.encode()):
        ends = ends or list(accumulate(len(starts[at]) + len(_BETWEEN) for at in plain))
        suspects.add(plain[bisect_right(ends, match.start())])
    if len(plain) < len(starts):
        for at, start in enumerate(starts):
            # Half a surrogate pair has no encoding, and is in no pattern.
            if not start.isascii() and suspicion.search(
                _opening(start).encode(errors="backslashreplace")
            ):
                suspects.add(at)
    return suspects


@functools.cache
def _suspicion() -> Any:
    """RE2 that matches wherever any rule does, and in more places, in linear time.

    It knows the part of each rule that negates. With the gaps between parts, RE2 would need so many
    states for answers that mix negations of many languages that it takes 300 times as long.
    """
    return _re2(
        _negating(_widened(pattern), language.negations)
        for language in _LANGUAGES
        for pattern in language.patterns
    )


@functools.cache
def _whole_rules(language: int) -> Any:
    """RE2 that matches wherever a rule of one language does, and in more places."""
    return _re2(map(_widened, _LANGUAGES[language].patterns))


def _re2(patterns: Iterable[str]) -> Any:
    import re2  # noqa: PLC0415 - commands that observe nothing start faster without

    return re2.compile("|".join(f"(?:{pattern})" for pattern in patterns).encode())


def _widened(pattern: re.Pattern[str]) -> str:
    wide = pattern.pattern
    for repeated, instead in _REPEATED:
        wide = repeated.sub(instead, wide)
    return wide


def _negating(wide: str, negations: tuple[str, ...]) -> str:
    """The longest part between gaps that holds a negation, or where it is short the next part."""
    words = [word.strip() for word in negations]
    gaps = [gap.span() for gap in _WIDE_GAP.finditer(wide) if _is_balanced(wide[: gap.start()])]
    begins = [0, *(end for _, end in gaps)]
    ends = [*(start for start, _ in gaps), len(wide)]
    negating = [at for at, part in enumerate(zip(begins, ends, strict=True))
                if _mentions(wide[slice(*part)], words)]  # fmt: skip
    if not negating:
        return wide
    chosen = max(negating, key=lambda at: ends[at] - begins[at])
    if ends[chosen] - begins[chosen] < _SHORT_PART and chosen + 1 < len(ends):
        chosen += 1
    return wide[begins[chosen] : ends[chosen]]


def _is_balanced(pattern: str) -> bool:
    """True for the beginning of a pattern that ends outside of all groups."""
    opened = pattern.count("(") - pattern.count(r"\(")
    return opened == pattern.count(")") - pattern.count(r"\)")


def _may_decline(opening: str) -> bool:
    """True where RE2 finds that a rule might match: most suspects are cleared by it."""
    text = opening.encode(errors="backslashreplace")
    return any(
        _mentions(opening, language.negations)
        and (not language.subjects or _mentions(opening, language.subjects))
        and _whole_rules(number).search(text) is not None
        for number, language in enumerate(_LANGUAGES)
    )


def _opening(start: str) -> str:
    if not start.isascii():
        start = unicodedata.normalize("NFC", start)  # as the phrases are
    return " " + start.lower().replace("’", "'")


def _opens_declining(opening: str) -> bool:
    return any(
        pattern.search(opening) is not None
        for language in _LANGUAGES
        if _mentions(opening, language.negations)
        and (not language.subjects or _mentions(opening, language.subjects))
        for pattern in language.patterns
    )


def _mentions(text: str, words: Sequence[str]) -> bool:
    for word in words:  # noqa: SIM110 - a third of the time of any()
        if word in text:
            return True
    return False
