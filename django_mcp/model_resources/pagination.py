"""Keyset pagination, orderings, encrypted cursors, and reading one row.

A cursor holds values of the row it stands behind, and that row may be one its reader may not see, so it is encrypted
(``seal``). It is good for the caller and the question it was given to, and no other.

Values as Python has them will not do. On SQLite a decimal is a float that is rounded when it is read; without
``USE_TZ`` two moments an hour apart look the same where clocks were turned back; JSON has no infinity. A row whose
value comes back a little smaller would be given a second time, for ever.

Pages begin behind the values of a row instead of after so many rows (keyset pagination): what was there throughout is
in exactly one page, and a deep page costs what the first one does where there is an index.
"""

import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import connections, models
from django.db.models import F, Func, Q, QuerySet, Value, prefetch_related_objects
from django.db.models.expressions import OrderBy
from django.db.models.functions import Cast, Left
from django.db.models.lookups import Exact, GreaterThan, IsNull, LessThan
from django.utils.crypto import salted_hmac
from pydantic_core import from_json, to_json

from django_mcp.core.context import Context
from django_mcp.model_resources.access import RowAccess, guarded
from django_mcp.model_resources.bound_resource import BoundResource, Key, OutputField
from django_mcp.model_resources.queryset import annotated, load_sets, with_relations, without_weight
from django_mcp.model_resources.schema import value_field
from django_mcp.model_resources.serializers import SerializerContext, serialize_row
from django_mcp.protocol.errors import InvalidParams

if TYPE_CHECKING:
    from jwcrypto.jwk import JWK

_HEADER = '{"alg":"dir","enc":"A128GCM"}'


def seal(payload: bytes) -> str:
    """*payload* as text that only this site can read, and nobody can alter."""
    from jwcrypto.jwe import JWE  # noqa: PLC0415 - jwcrypto takes long to import, and many sites never page

    token = JWE(payload, _HEADER)
    token.add_recipient(_key(str(settings.SECRET_KEY)))
    # The header is always the same; what is left of the five parts are nonce, ciphertext and tag.
    return str(token.serialize(compact=True)).split(".", 2)[2]


def opened(sealed: str) -> Iterator[bytes]:
    """What was sealed, with the present key or one before it; nothing where it was not sealed here."""
    from jwcrypto.common import JWException, base64url_encode  # noqa: PLC0415 - likewise
    from jwcrypto.jwe import JWE  # noqa: PLC0415 - likewise

    for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        token = JWE()
        try:
            token.deserialize(f"{base64url_encode(_HEADER)}..{sealed}", _key(str(secret)))
        except (JWException, ValueError):
            continue
        yield token.payload


@lru_cache(maxsize=8)
def _key(secret: str) -> "JWK":
    from jwcrypto.common import base64url_encode  # noqa: PLC0415 - likewise
    from jwcrypto.jwk import JWK  # noqa: PLC0415 - likewise

    made = salted_hmac("django_mcp.exposure.cursors", "", secret, algorithm="sha256").digest()[:16]
    return JWK(kty="oct", k=base64url_encode(made))


_MAX_CHARACTERS = 4096
_PADDED_TO = 128
"""Bytes."""


def encode(ctx: Context, question: object, place: Sequence[Any]) -> str:
    """A cursor for *place*.

    Args:
        ctx: the call, whose caller alone may use it.
        question: what was asked, the place aside; anything JSON can hold.
        place: values JSON can hold.
    """
    said = to_json([_digest(ctx, question), place])
    # As long as others, so that its length does not tell how long a value of a hidden row is.
    return seal(said.ljust(-(-len(said) // _PADDED_TO) * _PADDED_TO))


def decode(ctx: Context, question: object, cursor: str) -> list[Any]:
    """The place that *cursor* stands for.

    Raises:
        InvalidParams: it is none of ours, somebody else's, or an answer to another question.
    """
    if len(cursor) <= _MAX_CHARACTERS and cursor.isascii():
        for payload in map(from_json, opened(cursor)):
            if payload[0] == _digest(ctx, question):
                return list(payload[1])
    raise invalid()


def invalid() -> InvalidParams:
    """Return the error for an unusable cursor, which is the same whatever the reason."""
    return InvalidParams(
        "Invalid cursor. A cursor works only for the same caller and the same arguments. "
        "Repeat the request without a cursor to start from the first page."
    )


def _digest(ctx: Context, question: object) -> str:
    caller = ctx.principal
    said = to_json([ctx.server.name, caller.kind, caller.id, question])
    return hashlib.blake2s(said, digest_size=8).hexdigest()


def written(expression: Any, vendor: str) -> Any:
    """An expression for *expression* as text; on SQLite for the text or number that is stored, whatever its column."""
    if vendor == "sqlite":
        # The plus does nothing, but for keeping the driver from reading the value as what its column was declared.
        return Func(expression, template="+%(expressions)s", output_field=models.Field())
    return Cast(expression, models.TextField())


def as_value(value: Any, field: Any, vendor: str) -> Any:
    """What ``written`` gave, as an expression to compare with the column *field*."""
    if vendor == "postgresql":
        return Cast(Value(value), field)
    return Value(value, output_field=models.Field())


LETTERS = 480
"""Characters of all texts that rows are sorted by: a cursor holds them, and must be short enough for a header."""


class Sorting:
    """Rows in an order that leaves no two of them in the same place.

    Args:
        keys: by which they are sorted, the last of them unique.
        access: what of other models exists for them decides where rows stand.
        bound: whose rows they are.
    """

    def __init__(self, keys: Sequence[Key], access: RowAccess, bound: Any) -> None:
        self._keys, self._access, self._bound = keys, access, bound
        self._ends = [key.path.end for key in keys]
        self._names: list[str] = []
        self._nullable: list[bool] = []
        self._computed: dict[str, Any] = {}
        most = LETTERS // max(1, sum(map(_is_text, self._ends)))
        for at, key in enumerate(keys):
            expression, is_cut = guarded(key.path, access, bound), _is_longer(self._ends[at], most)
            is_plain = expression is None and not is_cut and not key.path.hops and not key.path.field.is_relation
            self._names.append(key.path.field.attname if is_plain else f"mcp_key_{at}")
            self._nullable.append(expression is not None or bool(key.path.hops) or key.path.is_nullable)
            if is_plain:
                continue
            value = F(key.path.column) if expression is None else expression
            self._computed[self._names[at]] = Left(value, most) if is_cut else value
            if is_cut:
                self._ends[at] = models.CharField()

    @property
    def _mark(self) -> int:
        """Differs from that of another sorting, such as this one before the site declared another order."""
        ends = zip(self._keys, self._ends, strict=True)
        said = [f"{key.path.column} {key.is_descending} {end.get_internal_type()}" for key, end in ends]
        return zlib.crc32(",".join(said).encode())

    def sorted(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """*rows* in order, with where they stand."""
        vendor = connections[rows.db].vendor
        rows = annotated(rows, [key.path.source for key in self._keys], self._access, self._bound)
        with_keys: QuerySet[Any] = rows.annotate(**self._computed)
        places = {f"mcp_place_{at}": written(F(name), vendor) for at, name in enumerate(self._names)}
        with_places: QuerySet[Any] = with_keys.annotate(**places)
        return with_places.order_by(*map(self._order, range(len(self._keys))))

    def _order(self, at: int) -> OrderBy:
        """Nothing comes after everything: as PostgreSQL's indexes have it, and said aloud for the others."""
        nulls, descending = self._nullable[at] or None, self._keys[at].is_descending
        return OrderBy(
            F(self._names[at]),
            descending=descending,
            nulls_first=nulls if descending else None,
            nulls_last=None if descending else nulls,
        )

    def place(self, obj: Any) -> list[Any]:
        """Where a row of ``sorted`` stands, as JSON can hold it."""
        return [self._mark, *(getattr(obj, f"mcp_place_{at}") for at in range(len(self._keys)))]

    def after(self, rows: QuerySet[Any], place: Sequence[Any]) -> list[QuerySet[Any]]:
        """Those of *rows*, which ``sorted`` gave, that stand behind *place*: one queryset after the other.

        There are several, with no row in two of them, for databases find the place in an index only where the
        condition is one range of it: an OR has them read all that comes before.

        Raises:
            InvalidParams: *place* is of another sorting.
        """
        mark, *found = place
        if mark != self._mark or len(found) != len(self._keys):
            raise invalid()
        vendor = connections[rows.db].vendor
        ends = zip(found, self._ends, strict=True)
        values = [None if value is None else as_value(value, end, vendor) for value, end in ends]
        return [rows.filter(behind) for behind in self._behind(values, vendor)]

    def _behind(self, values: Sequence[Any], vendor: str) -> Iterator[Q]:
        """What is the same up to some key and beyond the place by it, for each key from the last to the first."""
        # Of a row SQLite looks up the first value alone; and there two queries cost hardly more than one.
        last = len(values) - 1 if vendor == "sqlite" else self._compared_at_once(values)
        for at in range(last, -1, -1):
            equal = Q(*(self._same(key, values[key]) for key in range(at)))
            end = len(values) if at == last else at + 1
            for beyond in self._beyond(at, values[at:end]):
                yield equal & beyond

    def _compared_at_once(self, values: Sequence[Any]) -> int:
        """From which key on all are compared as one row: they go one way, and there is no null among them."""
        at = len(values) - 1
        while (
            at > 0
            and not self._nullable[at]
            and values[at - 1] is not None
            and self._keys[at - 1].is_descending == self._keys[at].is_descending
        ):
            at -= 1
        return at

    def _same(self, at: int, value: Any) -> Q:
        name = F(self._names[at])
        return Q(IsNull(name, True)) if value is None else Q(Exact(name, value))

    def _beyond(self, at: int, values: Sequence[Any]) -> Iterator[Q]:
        names, descending = [F(name) for name in self._names[at : at + len(values)]], self._keys[at].is_descending
        if values[0] is not None:
            yield Q(_beyond(names, values, "<" if descending else ">"))
            if self._nullable[at] and not descending:
                yield Q(IsNull(names[0], True))
        elif descending:
            yield Q(IsNull(names[0], False))


def _beyond(names: Sequence[Any], values: Sequence[Any], sign: str) -> Any:
    """A comparison of rows, ``(a, b) > (1, 2)``: one range of an index over *names*."""
    if len(names) == 1:
        return LessThan(names[0], values[0]) if sign == "<" else GreaterThan(names[0], values[0])
    # Neither of both is a value of its own, so it does not matter of which field they are said to be.
    sides = [Func(*side, template="(%(expressions)s)", output_field=models.Field()) for side in (names, values)]
    return Func(*sides, template="%(expressions)s", arg_joiner=f" {sign} ", output_field=models.BooleanField())


def _is_text(end: Any) -> bool:
    return isinstance(value_field(end), models.CharField | models.TextField)


def _is_longer(end: Any, most: int) -> bool:
    """Whether a text may be too long for a cursor, so that rows are sorted by how it begins."""
    return _is_text(end) and (end.max_length is None or end.max_length > most)


MAX_LOOKED_AT = 200
"""Rows that one call looks at where each has to be asked about, which may be a query for each."""
BATCH = 100
COUNTED = 1000
"""Beyond so many, rows are not counted: a count costs as much as there are rows."""
TEXT_IN_LISTS = 400
"""The most characters of one text where there are many rows."""
TEXT_ALONE = 20_000
SHORTER = (5000, 1000, TEXT_IN_LISTS, 100)
"""The most characters of one text, tried in turn where a single row is too long for an answer."""


@dataclass(frozen=True, slots=True)
class Page:
    """Rows as JSON.

    Attributes:
        rows: an object each.
        place: of the last row that was looked at, where there is more behind it.
        was_cut: there are fewer rows than asked for, for else they had too many characters.
    """

    rows: list[dict[str, Any]]
    place: Sequence[Any] | None
    was_cut: bool = False


def read_page(
    bound: BoundResource,
    access: RowAccess,
    rows: QuerySet[Any],
    sorting: Sorting,
    columns: Sequence[OutputField],
    limit: int,
    place: Sequence[Any] | None,
) -> Page:
    """The rows behind *place* that exist for the caller, *limit* of them at most.

    Raises:
        InvalidParams: *place* is of another sorting.
    """
    showing = SerializerContext(access, bound, TEXT_IN_LISTS)
    found = objects(bound, access, with_columns(bound, access, rows, columns), sorting, limit, place)
    load_sets(found.objects, columns, bound, access)
    shown: list[dict[str, Any]] = []
    room = bound.resource.max_output_chars
    for at, obj in enumerate(found.objects):
        row = serialize_row(bound, obj, columns, showing) if shown else whole_row(bound, obj, columns, showing)
        room -= len(to_json(row)) + 2
        if room < 0 and shown:
            return Page(shown, sorting.place(found.objects[at - 1]), was_cut=True)
        shown.append(row)
    return Page(shown, found.place)


def whole_row(
    bound: BoundResource, obj: Any, columns: Sequence[OutputField], showing: SerializerContext
) -> dict[str, Any]:
    """A row that is to be shown whatever its length: its texts, and what has no shape, are cut until it fits."""
    row = serialize_row(bound, obj, columns, showing)
    for most in SHORTER:
        if len(to_json(row)) <= bound.resource.max_output_chars:
            break
        row = serialize_row(bound, obj, columns, replace(showing, most_characters=min(most, showing.most_characters)))
        row |= {column.name: _bounded(row[column.name], column.schema, most) for column in columns}
    return row


def _bounded(value: Any, schema: Mapping[str, Any], most: int) -> Any:
    """A list, or an object of no declared shape, in *most* characters."""
    if not isinstance(value, list | dict) or len(to_json(value)) <= most:
        return value
    if not {"type", "anyOf", "$ref"} & schema.keys():
        text = to_json(value).decode()
        return f"{text[:most]}… ({len(text) - most} more characters)"
    if isinstance(value, dict):
        return value
    lengths = accumulate(len(to_json(each)) + 1 for each in value)
    return [each for each, length in zip(value, lengths, strict=True) if length < most]


def show_row(bound: BoundResource, access: RowAccess, rows: QuerySet[Any]) -> dict[str, Any] | None:
    """What is shown of the first of *rows*, which came through the door; None where there is none for the caller."""
    for obj in with_columns(bound, access, rows, bound.columns)[:1]:
        if access.can_view(bound, obj):
            load_sets([obj], bound.columns, bound, access)
            return whole_row(bound, obj, bound.columns, SerializerContext(access, bound, TEXT_ALONE, in_full=True))
    return None


def with_columns(
    bound: BoundResource, access: RowAccess, rows: QuerySet[Any], columns: Sequence[OutputField]
) -> QuerySet[Any]:
    """*rows* with all that *columns* show, but for what ``load_sets`` puts on objects."""
    rows = annotated(rows, [column.path.source for column in columns if column.path], access, bound)
    return without_weight(with_relations(rows, columns, bound, access), columns, bound)


@dataclass(frozen=True, slots=True)
class Found:
    """Objects, and where the next ones begin, if there are any."""

    objects: list[Any]
    place: Sequence[Any] | None


def objects(
    bound: BoundResource,
    access: RowAccess,
    rows: QuerySet[Any],
    sorting: Sorting,
    limit: int,
    place: Sequence[Any] | None,
) -> Found:
    """The objects behind *place* that exist for the caller, *limit* of them at most.

    Raises:
        InvalidParams: *place* is of another sorting.
    """
    ordered = sorting.sorted(rows)
    if not bound.resource.checks_each_row:
        found = _first(limit + 1, [ordered] if place is None else sorting.after(ordered, place))
        more = len(found) > limit
        return Found(found[:limit], sorting.place(found[limit - 1]) if more else None)
    seen: list[Any] = []
    for _ in range(MAX_LOOKED_AT // BATCH):
        batch = _first(BATCH, [ordered] if place is None else sorting.after(ordered, place))
        for obj in batch:
            if access.can_view(bound, obj):
                if len(seen) == limit:
                    return Found(seen, sorting.place(seen[-1]))
                seen.append(obj)
        if len(batch) < BATCH:
            return Found(seen, None)
        place = sorting.place(batch[-1])
    return Found(seen, place)


def _first(most: int, parts: Sequence[QuerySet[Any]]) -> list[Any]:
    """The first objects of querysets of one kind that come one after the other."""
    found: list[Any] = []
    for part in parts:
        found += part.prefetch_related(None)[: most - len(found)]
        if len(found) == most:
            break
    # Once for all of them, so that a page takes as many queries wherever it is.
    for part in parts[:1]:
        prefetch_related_objects(found, *part._prefetch_related_lookups)  # type: ignore[attr-defined]  # noqa: SLF001
    return found


def count(bound: BoundResource, rows: QuerySet[Any]) -> int | None:
    """How many rows there are; None where they are too many to count, or each has to be asked about."""
    if bound.resource.checks_each_row:
        return None
    counted = rows.order_by()[: COUNTED + 1].count()
    return counted if counted <= COUNTED else None
