"""Which letters and signs fonts draw as one of ASCII, or nearly so.

They are those of Cyrillic, Greek, Armenian, Cherokee, Coptic and Lisu, Latin small capitals and
letters of phonetics, and quotation marks, slashes and dots of typography. What Unicode itself calls
a form of an ASCII character, such as a full-width or a mathematical letter, is not here: NFKC has
it. Nor is the other case of a letter: `accountant.likeness` folds case first.

The choice is ours. Unicode Technical Standard 39 lists far more, rare scripts and whole words.
"""

from __future__ import annotations

from typing import Final

_DRAWN_AS: Final = {
    "A": "\u0391\u0410\u13aa\u2c80\ua4ee",
    "a": "\u0251\u03b1\u0430\u1d00\u2c81",
    "B": "\u0392\u0412\u13f4\u2c82\ua4d0",
    "b": "\u0299\u042c\u0432\u044c\u13cf\u2c83",
    "C": "\u0421\u13df\u2ca4\ua4da",
    "c": "\u03c2\u0441\u1d04\u2ca5",
    "D": "\u13a0\ua4d3",
    "d": "\u0501\u1d05",
    "E": "\u0395\u0415\u13ac\ua4f0",
    "e": "\u0435\u1d07",
    "F": "\u03dc\ua4dd",
    "f": "\u0584\ua730",
    "G": "\u050c\u13c0\ua4d6",
    "g": "\u0261\u0262\u0581",
    "H": "\u0397\u041d\u13bb\u2c8e\ua4e7",
    "h": "\u029c\u043d\u04bb\u0570\u2c8f",
    "I": "\u0399\u0406\u04c0\u2c92\ua4f2",
    "i": "\u0131\u0269\u026a\u03b9\u0456\u2c93",
    "J": "\u037f\u0408\u13ab\ua4d9",
    "j": "\u0237\u03f3\u0458\u1d0a",
    "K": "\u039a\u041a\u13e6\u2c94\ua4d7",
    "k": "\u03ba\u043a\u1d0b\u2c95",
    "L": "\u053c\u13de\ua4e1",
    "l": "\u029f\u04cf\u05d5\u05df",
    "M": "\u039c\u03fa\u041c\u13b7\u2c98\ua4df",
    "m": "\u043c\u1d0d\u2c99",
    "N": "\u039d\u2c9a\ua4e0",
    "n": "\u0274\u03b7\u043f\u0578\u2c9b",
    "O": "\u039f\u041e\u0555\u2c9e\ua4f3\U00010404",
    "o": "\u03bf\u043e\u0585\u05e1\u0647\u0d20\u101d\u10ff\u1d0f\u2c9f\U0001042c",
    "P": "\u03a1\u0420\u13e2\u2ca2\ua4d1",
    "p": "\u03c1\u0440\u1d18\u2ca3",
    "Q": "\u051a",
    "q": "\u051b\u0566",
    "R": "\u13a1\ua4e3",
    "r": "\u0280\u0433",
    "S": "\u0405\u054f\u13da\ua4e2",
    "s": "\u0455\ua731",
    "T": "\u03a4\u0422\u13a2\u2ca6\ua4d4",
    "t": "\u0442\u1d1b\u2ca7",
    "U": "\u054d\u22c3\ua4f4",
    "u": "\u028a\u03c5\u057d\u1d1c",
    "V": "\u0474\u13d9\ua4e6",
    "v": "\u028b\u03bd\u0475\u1d20\u2228",
    "W": "\u0460\u051c\u13b3\ua4ea",
    "w": "\u03c9\u0461\u051d\u1d21",
    "X": "\u03a7\u0425\u2cac\ua4eb",
    "x": "\u00d7\u03c7\u0445\u2cad",
    "Y": "\u03a5\u0423\u04ae\u13a9\u2ca8\ua4ec",
    "y": "\u0263\u028f\u03b3\u0443\u04af\u2ca9",
    "Z": "\u0396\u13c3\ua4dc",
    "z": "\u1d22",
    "!": "\u01c3",
    '"': "\u201c\u201d\u201e",
    "%": "\u066a",
    "'": "\u0060\u02bc\u2018\u2019\u201b\u2032\ua78c",
    "*": "\u2217",
    ",": "\u060c\u066b\u201a",
    ".": "\u00b7\u2022\u2027\u22c5\u3002",
    "/": "\u2044\u2215\u29f8",
    "3": "\u01b7\u021d\u0292\u0417\u0437",
    "6": "\u0431",
    ":": "\u2236\ua789",
    "<": "\u2039",
    ">": "\u203a",
    "\\": "\u2216",
    "|": "\u01c0\u2223",
    "~": "\u223c",
}
_LATIN: Final = str.maketrans({each: to for to, like in _DRAWN_AS.items() for each in like})


def latin(text: str) -> str:
    """Return a text with the ASCII character for each other one that looks like it."""
    return text.translate(_LATIN)
