"""What people tell of a failure in their own words: who is in which collective, and that it failed.

Whoever took stacks or put prints into the program often writes only what they saw: "rank 3 is in
all_gather while the others are in barrier".
"""

from __future__ import annotations

import re
from itertools import pairwise

_I = re.IGNORECASE
_OPERATION = re.compile(
    r"(?<![A-Za-z])(all[_ -]?reduce|all[_ -]?gather|reduce[_ -]?scatter|broadcast|(?:monitored_)?"
    r"barrier|all[_ -]?to[_ -]?all|allreduce|allgather|gather|scatter)(?![A-Za-z])",
    _I,
)
# What sets one rank against the others, and what says that they stand where they are.
_AGAINST = re.compile(
    r"\b(?:while|whereas|but)\b|，(?:而|但)?|,(?=[^,]{0,40}(?:其|别的))|；|而", _I
)
_RANKS = re.compile(r"\branks?\b|\bothers?\b|\brest\b|rank ?\d|其他|其它|其余|别的", _I)
_NUMBER = re.compile(r"(?<!local )(?<!local_)\brank ?(\d{1,5})(?![\ds\-,])", _I)
_EXCEPT = re.compile(r"\bexcept\b|\bbesides\b|除", _I)
_STANDS = re.compile(
    r"\b(?:wait(?:s|ing)?|stuck|hang(?:s|ing)?|hung|block(?:s|ed|ing)?|stop(?:s|ped)?|stands?|sits?"
    r"|enter(?:s|ed|ing)?|reach(?:es|ed)?|perform(?:s|ing)?|runs?|running|calls?|called|is|are)\b"
    r"|卡|停|等|在|进入|执行|跑",
    _I,
)
# A person's word that something went wrong; not "no error", "没有报错". Many lines of programs
# without a header look like a person's: only a person speaks of "I" or of "the training".
_COMPLAINT = re.compile(
    r"\b(?:I|we|my|our|it|trainings?|runs?|program|script|job|code)\b[^.;\n]{0,60}?"
    r"(?<!no )(?<!any )(?<!without )(?<!not )(?<!n't )(?<!avoid )(?<!prevent )(?<!if it )"
    r"\b(?:errors?|exceptions?|crash(?:es|ed)|fail(?:s|ed|ure)|time[sd] out|timeout error|killed"
    r"|aborted|deadlocked)\b"
    r"|(?<!没有)(?<!没)(?<!无)(?<!不)(?<!未)(?<!如果)(?<!避免)"
    r"(?:报错|崩溃|超时|出错|失败|被杀|中断|挂了|挂掉)",
    _I,
)
# One rank whose data ended, and others that go on.
_ENDED = re.compile(
    r"\b(?:ran|runs?|running|is|are|was) out of (?:data|batches|samples)\b"
    r"|\bha[sd] no (?:more |further )?(?:data|batches|samples)\b"
    r"|\b(?:finish(?:es|ed)|exhaust(?:s|ed)|consume[sd])(?: \w+){0,3} "
    r"(?:data(?:set|loader)?|batches|samples|epoch|shard|iterator)\b"
    r"|数据(?:已经?|先|都|就){0,2}(?:用完|耗尽|跑完|读完|取完|没了)|没有(?:更多)?数据",
    _I,
)
_GO_ON = re.compile(
    r"\b(?:others?|remaining|rest)\b[^.;\n]{0,60}\b(?:still|continu\w{1,4}|wait\w{0,3}|keep\w{0,2}|"
    r"expect\w{0,3}|more)\b|(?:其他|其它|其余|别的)[^。；\n]{0,20}(?:还|仍|等|继续)",
    _I,
)


def ended(line: str) -> dict[str, str] | None:
    """A rank whose data ended before the others', as one sentence tells: its number, if given."""
    if _ENDED.search(line) is None:
        return None
    for sentence in re.split(r"[.;。\n](?=\s|$|[^\w])", line[:2000]):
        found, others = _ENDED.search(sentence), _GO_ON.search(sentence)
        if found is None or others is None or _RANKS.search(sentence[: found.start()]) is None:
            continue
        if re.search(r"(?i)\b(?:if|when(?:ever)?|would|could|may|might)\b|如果|假如", sentence):
            continue  # a warning or a guess, not what was seen
        numbers = {hit[1] for hit in _NUMBER.finditer(sentence[: found.start()])}
        return {"rank": numbers.pop()} if len(numbers) == 1 else {}
    return None


def apart(line: str) -> dict[str, str] | None:
    """Two parties of ranks in two collectives, as one sentence tells: ``mine`` and ``other``.

    ``rank`` is given where the first party is one rank with a number.
    """
    if _OPERATION.search(line) is None:
        return None
    for sentence in re.split(r"[.;。\n](?=\s|$|[^\w])", line[:2000]):
        parts = _AGAINST.split(sentence, maxsplit=4)
        for mine, other in pairwise(parts):
            one, two = _OPERATION.search(mine), _OPERATION.search(other)
            if one is None or two is None or _name(one[1]) == _name(two[1]):
                continue
            if not (_RANKS.search(mine) and _RANKS.search(other)):
                continue
            if not (_STANDS.search(mine) or _STANDS.search(other)):
                continue
            found = {"mine": _name(one[1]), "other": _name(two[1])}
            numbers = {hit[1] for hit in _NUMBER.finditer(mine)}
            if len(numbers) == 1 and not _EXCEPT.search(mine):
                found["rank"] = numbers.pop()
            return found
    return None


def complains(line: str) -> bool:
    """Whether a person writes that something failed."""
    return _COMPLAINT.search(line[:2000]) is not None


def _name(words: str) -> str:
    """An operation's name as logs write it: ``ALL_GATHER``, ``all gather`` are ``ALLGATHER``."""
    name = re.sub(r"[_ -]", "", words).upper()
    return "BARRIER" if name.endswith("BARRIER") else name
