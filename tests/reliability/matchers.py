"""What an argument may be for a call to count as right.

A plain value stands for itself: a string is matched to the letter, a number by its value, an object key by key, an array item by
item. The functions below are for where several values are right. Each matcher also holds an example, a value that it accepts, so
that the tests can prove that every case can be solved within its tool's schema.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Matcher:
    accepts: Callable[[object], bool]
    example: object
    may_be_missing: bool = False


def matcher(expected):
    match expected:
        case Matcher():
            return expected
        case dict():
            return _object(expected)
        case list():
            return _array(expected)
        case _:
            # True equals 1 in Python, in JSON it does not.
            return Matcher(lambda value: value == expected and isinstance(value, bool) == isinstance(expected, bool), expected)


def any_case(*texts):
    """One of the texts, in capitals or not, and whatever white space surrounds it."""
    folded = {text.casefold() for text in texts}
    return Matcher(lambda value: isinstance(value, str) and value.strip().casefold() in folded, texts[0])


def one_of(*expected):
    matchers = [matcher(each) for each in expected]
    return Matcher(lambda value: any(each.accepts(value) for each in matchers), matchers[0].example)


def words(*expected):
    """A text with all these words in it, for what can be put in many ways: a search query, a subject."""
    folded = [word.casefold() for word in expected]
    return Matcher(lambda value: isinstance(value, str) and all(word in value.casefold() for word in folded), " ".join(expected))


def near(number, within):
    def accepts(value):
        return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value - number) <= within

    return Matcher(accepts, number)


def set_of(*items):
    """An array with these items in any order, none missing, none doubled."""
    matchers = [matcher(item) for item in items]

    def accepts(value):
        if not isinstance(value, list) or len(value) != len(matchers):
            return False
        left = list(value)
        for each in matchers:
            found = next((index for index, item in enumerate(left) if each.accepts(item)), None)
            if found is None:
                return False
            del left[found]
        return True

    return Matcher(accepts, [each.example for each in matchers])


def anything(example):
    return Matcher(lambda value: True, example)


def optional(expected):
    """A key that may be left out."""
    return replace(matcher(expected), may_be_missing=True)


def _object(expected):
    matchers = {key: matcher(value) for key, value in expected.items()}

    def accepts(value):
        if not isinstance(value, dict) or not value.keys() <= matchers.keys():
            return False
        return all(each.accepts(value[key]) if key in value else each.may_be_missing for key, each in matchers.items())

    return Matcher(accepts, {key: each.example for key, each in matchers.items()})


def _array(expected):
    matchers = [matcher(item) for item in expected]

    def accepts(value):
        return isinstance(value, list) and len(value) == len(matchers) and all(m.accepts(v) for m, v in zip(matchers, value))

    return Matcher(accepts, [each.example for each in matchers])
