"""The controls of a page's form: the data that a browser sends if nothing is filled in (HTML, section 4.10.21)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

Pair = tuple[str, str]
"""Name and value of a successful control."""
_BUTTONS = frozenset({"submit", "image"})
_NEVER_SENT = frozenset({*_BUTTONS, "reset", "button", "file"})
CSRF_FIELD = "csrfmiddlewaretoken"
TEMPLATE = "__prefix__"
"""Stands for the number in the names of a formset's empty form, which scripts copy."""


@dataclass
class PageForm:
    """A form of a page.

    Attributes:
        id: its ``id``, or "".
        method: in lower case.
        action: as written; "" is the page itself.
        pairs: what is sent if it is submitted untouched, without a button.
        shown: names of controls that a person sees, each with the values to choose from; none if any text is possible.
        templates: controls of empty forms, which are no rows.
        buttons: name and value of each button that submits it.
        files: names of inputs for files.
    """

    id: str
    method: str
    action: str
    pairs: list[Pair] = field(default_factory=list)
    shown: dict[str, list[str]] = field(default_factory=dict)
    templates: list[Pair] = field(default_factory=list)
    buttons: list[Pair] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def add(self, name: str, value: str) -> None:
        if name == CSRF_FIELD:  # differs with each page, and is not asked for
            return
        (self.templates if TEMPLATE in name else self.pairs).append((name, value))


def forms_of(html: str) -> list[PageForm]:
    """Return the forms of a page, and last one for the controls outside of forms, if there are any."""
    parser = _Parser()
    parser.feed(html)
    parser.close()
    return parser.forms + ([parser.outside] if parser.outside.pairs or parser.outside.templates else [])


def pairs_of(html: str) -> list[Pair]:
    """Return what the controls of a fragment, such as a rendered widget, send."""
    return [pair for form in forms_of(html) for pair in (*form.pairs, *form.templates)]


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.forms: list[PageForm] = []
        self.outside = PageForm("", "", "")
        self._form = self.outside
        self._select: _Select | None = None
        self._text: _Textarea | None = None
        self._hidden = 0  # inside of <template>

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        given = {name: value if value is not None else "" for name, value in attrs}
        if tag == "template":
            self._hidden += 1
        if self._hidden:
            return
        match tag:
            case "form":
                self._form = PageForm(given.get("id", ""), given.get("method", "get").lower(), given.get("action", ""))
                self.forms.append(self._form)
            case "input" if "disabled" not in given:
                self._input(given)
            case "button" if "disabled" not in given and given.get("type", "submit").lower() == "submit":
                if given.get("name"):
                    self._owner(given).buttons.append((given["name"], given.get("value", "")))
            case "select":
                self._select = _Select(given, self._owner(given))
            case "option" if self._select is not None:
                self._select.begin(given)
            case "textarea":
                self._text = _Textarea(given, self._owner(given))

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        match tag:
            case "template":
                self._hidden = max(self._hidden - 1, 0)
            case "form":
                self._form = self.outside
            case "select" if self._select is not None:
                self._select.send()
                self._select = None
            case "textarea" if self._text is not None:
                self._text.send()
                self._text = None

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.parts.append(data)
        elif self._select is not None:
            self._select.text(data)

    def _input(self, given: dict[str, str]) -> None:
        name, kind = given.get("name"), given.get("type", "text").lower()
        if not name:
            return
        form = self._owner(given)
        if kind not in {"hidden", "reset", "button", *_BUTTONS}:
            offered = form.shown.setdefault(name, [])
            if kind in {"checkbox", "radio"}:
                offered.append(given.get("value", "on"))
        if kind in _BUTTONS:
            form.buttons.append((name, given.get("value", "")))
        elif kind == "file":
            form.files.append(name)
        elif kind in {"checkbox", "radio"}:
            if "checked" in given:
                form.add(name, given.get("value", "on"))
        elif kind not in _NEVER_SENT:
            form.add(name, given.get("value", ""))

    def _owner(self, given: dict[str, str]) -> PageForm:
        wanted = given.get("form")
        return next((form for form in self.forms if wanted and form.id == wanted), self._form)


class _Select:
    def __init__(self, given: dict[str, str], form: PageForm) -> None:
        self._name, self._form = given.get("name") if "disabled" not in given else None, form
        self._is_many = "multiple" in given
        self._options: list[dict[str, Any]] = []

    def begin(self, given: dict[str, str]) -> None:
        self._options.append({**given, "text": ""})

    def text(self, data: str) -> None:
        if self._options:
            self._options[-1]["text"] += data

    def send(self) -> None:
        if not self._name:
            return
        self._form.shown[self._name] = [_option_value(option) for option in self._options if "disabled" not in option]
        for value in self._chosen():
            self._form.add(self._name, value)

    def _chosen(self) -> Iterator[str]:
        able = [option for option in self._options if "disabled" not in option]
        chosen = [option for option in able if "selected" in option]
        if not self._is_many:
            # A list with one row chooses its first option, and of several that are marked the last.
            chosen = chosen[-1:] or able[:1]
        yield from map(_option_value, chosen)


def _option_value(option: dict[str, Any]) -> str:
    return str(option["value"]) if "value" in option else " ".join(option["text"].split())


class _Textarea:
    def __init__(self, given: dict[str, str], form: PageForm) -> None:
        self._name, self._form = given.get("name") if "disabled" not in given else None, form
        self.parts: list[str] = []

    def send(self) -> None:
        if self._name:
            self._form.shown.setdefault(self._name, [])
            text = "".join(self.parts)
            text = text.removeprefix("\n")  # the first line end is not part of the text
            self._form.add(self._name, text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n"))
