"""The line of a key: found for every way that TOML has to write one."""

from __future__ import annotations

import tomllib

from hypothesis import given, strategies as st

from supervision.settings import lines

TEXT = '''# a comment = 1
title = "a [table] = in text"   # 2
a.b . "c d" = 1

[one]
two = 2
[one.three] # 7
text = """
fake = 1
[fake]
""" # still 8
list = [
  1, # fake = 2
  { deep = 3 },
]
inline = { x = 1, y.z = 2 }
[ "quoted.name" . 'and/this' ]
key = 1
[[many]]
n = 1
[[many]]
n = 2
'''

WANTED = {
    ("title",): 2,
    ("a",): 3,
    ("a", "b"): 3,
    ("a", "b", "c d"): 3,
    ("one",): 5,
    ("one", "two"): 6,
    ("one", "three"): 7,
    ("one", "three", "text"): 8,
    ("one", "three", "list"): 12,
    ("one", "three", "inline"): 16,
    ("one", "three", "inline", "x"): 16,
    ("one", "three", "inline", "y", "z"): 16,
    ("quoted.name", "and/this", "key"): 18,
    ("many",): 19,
    ("many", "n"): 20,
}


def test_each_way_to_write_a_key_has_its_line() -> None:
    """Tables, dotted and quoted keys, inline tables and arrays are found; texts that look like keys are not."""
    found = lines(TEXT)

    assert {keys: found.get(keys) for keys in WANTED} == WANTED
    assert not any("fake" in keys for keys in found)


def test_carriage_returns_do_not_count() -> None:
    """A file with Windows line ends has the same lines."""
    assert lines(TEXT.replace("\n", "\r\n")) == lines(TEXT)


names = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=5)


@given(st.dictionaries(names, st.dictionaries(names, st.integers() | st.text(max_size=4))))
def test_every_key_of_a_document_has_a_line(data: dict[str, dict[str, int | str]]) -> None:
    """Whatever the names are, each key is found, on the line where it was written."""
    written: list[str] = []
    wanted = {}
    for table, pairs in data.items():
        written.append(f"[{quoted(table)}]")
        wanted[(table,)] = len(written)
        for key, value in pairs.items():
            written.append(f"{quoted(key)} = {value if isinstance(value, int) else quoted(value)}")
            wanted[(table, key)] = len(written)
    text = "\n".join(written)

    assert tomllib.loads(text) is not None
    assert lines(text) == wanted


def quoted(text: str) -> str:
    safe = "".join(
        sign if sign.isprintable() and sign not in '"\\' else f"\\U{ord(sign):08x}" for sign in text
    )
    return f'"{safe}"'


STRANGE = '''a = """x\\""" ] [ \\
  [b] = "still"
""""" # five quotes: two are text
c = [ # ] "
  "]", ']', """
]""",
  { d = "}" },
]
e = \'\'\'[\'\'\'
f = 1
'''


def test_brackets_and_quotes_inside_of_texts_open_nothing() -> None:
    """Texts, comments and escapes hide what would open or close a value."""
    tomllib.loads(STRANGE)

    assert {key[0]: line for key, line in lines(STRANGE).items() if len(key) == 1} == {
        "a": 1,
        "c": 4,
        "e": 9,
        "f": 10,
    }


def test_a_long_list_is_parsed_once(monkeypatch) -> None:
    """The application's own list of thousands of lines does not hold up the start."""
    sizes: list[int] = []
    parse = tomllib.loads

    def counting(text: str):
        sizes.append(len(text))
        return parse(text)

    text = "x = [\n" + "  'an item',\n" * 5000 + "]\ny = 1\n"
    monkeypatch.setattr(tomllib, "loads", counting)

    assert lines(text) == {("x",): 1, ("y",): 5003}
    assert sum(sizes) <= 2 * len(text)
