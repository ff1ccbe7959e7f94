"""Keyset pagination: orderings, encrypted cursors, reading pages and single rows.

A page starts after the values of the last row before it, not after a number of rows. Concurrent changes then neither
repeat nor skip other rows, and with an index a deep page costs as much as the first.

A cursor holds those values. It is encrypted, since its caller may not be allowed to see them, and valid for one caller
and one query. Values are compared as the database stores them, since in Python they may differ, and a row would repeat:
SQLite rounds decimals, and without ``USE_TZ`` an hour is ambiguous when clocks go back.
"""

import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import settings
from django.db import connections, models
from django.db.models import F, Func, Q, QuerySet, Value, prefetch_related_objects
from django.db.models.expressions import OrderBy
from django.db.models.functions import Cast, Left
from django.utils.crypto import salted_hmac
from pydantic_core import from_json, to_json

from django_mcp.core.context import Context
from django_mcp.model_resources.access import RowAccess, mask_hidden
from django_mcp.model_resources.bound_resource import BoundResource, OrderingKey, OutputField
from django_mcp.model_resources.queryset import annotate, defer_long_columns, load_related_sets, select_and_prefetch
from django_mcp.model_resources.schema import value_field
from django_mcp.model_resources.serializers import SerializerContext, serialize_row
from django_mcp.protocol.errors import InvalidParams

if TYPE_CHECKING:
    from jwcrypto.jwk import JWK

_HEADER = '{"alg":"dir","enc":"A128GCM"}'


def encrypt(payload: bytes) -> str:
    from jwcrypto.jwe import JWE  # noqa: PLC0415 - jwcrypto takes long to import, and many sites never page

    token = JWE(payload, _HEADER)
    token.add_recipient(_key(str(settings.SECRET_KEY)))
    # The header is constant and the key part empty, so only nonce, ciphertext and tag are kept.
    return str(token.serialize(compact=True)).split(".", 2)[2]


def decrypt(sealed: str) -> Iterator[bytes]:
    """Yield what *sealed* decrypts to with ``SECRET_KEY`` or a fallback; nothing if it is invalid."""
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

    made = salted_hmac("django_mcp.model_resources.cursors", "", secret, algorithm="sha256").digest()[:16]
    return JWK(kty="oct", k=base64url_encode(made))


_MAX_CHARACTERS = 4096
_PADDED_TO = 128
"""In bytes."""


def encode_cursor(ctx: Context, question: object, place: Sequence[Any]) -> str:
    """Return a cursor that only the caller of *ctx* can use.

    Args:
        question: the query without its position, as JSON.
        place: the position, as JSON.
    """
    payload = to_json([_digest(ctx, question), place])
    # Padded, so that its length does not reveal how long a hidden value is.
    return encrypt(payload.ljust(-(-len(payload) // _PADDED_TO) * _PADDED_TO))


def decode_cursor(ctx: Context, question: object, cursor: str) -> list[Any]:
    """Return the position in *cursor*.

    Raises:
        InvalidParams: the cursor is invalid, or belongs to another caller or query.
    """
    if len(cursor) <= _MAX_CHARACTERS and cursor.isascii():
        for payload in map(from_json, decrypt(cursor)):
            if payload[0] == _digest(ctx, question):
                return list(payload[1])
    raise invalid_cursor()


def invalid_cursor() -> InvalidParams:
    # The same for every reason.
    return InvalidParams(
        "Invalid cursor. A cursor works only for the same caller and the same arguments. "
        "Repeat the request without a cursor to start from the first page."
    )


def _digest(ctx: Context, question: object) -> str:
    caller = ctx.principal
    payload = to_json([ctx.server.name, caller.kind, caller.id, question])
    return hashlib.blake2s(payload, digest_size=8).hexdigest()


def written(expression: Any, vendor: str) -> Any:
    if vendor == "sqlite":
        # The unary plus keeps the driver from converting the value by the declared type of the column.
        return Func(expression, template="+%(expressions)s", output_field=models.Field())
    return Cast(expression, models.TextField())


def as_value(value: Any, field: Any, vendor: str) -> Any:
    # PostgreSQL compares text with no other type.
    if vendor == "postgresql":
        return Cast(Value(value), field)
    return Value(value, output_field=models.Field())


LETTERS = 480
"""Maximum characters of all texts in an ordering's keys: a cursor contains them and must fit into a header."""


class Sorting:
    """A total order of rows; the last key is unique. Hidden related rows sort as null."""

    def __init__(self, keys: Sequence[OrderingKey], access: RowAccess, bound: Any) -> None:
        self._keys, self._access, self._bound = keys, access, bound
        self._ends = [key.path.end for key in keys]
        self._names: list[str] = []
        self._nullable: list[bool] = []
        self._computed: dict[str, Any] = {}
        most = LETTERS // max(1, sum(map(_is_text, self._ends)))
        for at, key in enumerate(keys):
            expression, is_cut = mask_hidden(key.path, access, bound), _is_longer(self._ends[at], most)
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
        # Cursors from before the site changed the ordering are rejected.
        ends = zip(self._keys, self._ends, strict=True)
        parts = [f"{key.path.column} {key.is_descending} {end.get_internal_type()}" for key, end in ends]
        return zlib.crc32(",".join(parts).encode())

    def sorted(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return *rows* in order, annotated with their positions."""
        vendor = connections[rows.db].vendor
        rows = annotate(rows, [key.path.source for key in self._keys], self._access, self._bound)
        with_keys: QuerySet[Any] = rows.annotate(**self._computed)
        places = {f"mcp_place_{at}": written(F(name), vendor) for at, name in enumerate(self._names)}
        with_places: QuerySet[Any] = with_keys.annotate(**places)
        return with_places.order_by(*map(self._order, range(len(self._keys))))

    def _order(self, at: int) -> OrderBy:
        # Nulls come last in ascending order and first in descending order, as in PostgreSQL's indexes.
        nulls, descending = self._nullable[at] or None, self._keys[at].is_descending
        return OrderBy(
            F(self._names[at]),
            descending=descending,
            nulls_first=nulls if descending else None,
            nulls_last=None if descending else nulls,
        )

    def place(self, obj: Any) -> list[Any]:
        return [self._mark, *(getattr(obj, f"mcp_place_{at}") for at in range(len(self._keys)))]

    def after(self, rows: QuerySet[Any], place: Sequence[Any]) -> list[QuerySet[Any]]:
        """Return the rows after *place* as several disjoint querysets, to be read in turn.

        Databases find a position in an index only if the condition is a single range; with an OR they read all earlier
        rows.

        Raises:
            InvalidParams: *place* belongs to another ordering.
        """
        mark, *found = place
        if mark != self._mark or len(found) != len(self._keys):
            raise invalid_cursor()
        vendor = connections[rows.db].vendor
        ends = zip(found, self._ends, strict=True)
        values = [None if value is None else as_value(value, end, vendor) for value, end in ends]
        return [
            rows.filter(equal & beyond)
            if isinstance(beyond, Q)
            # By name, since querysets of packages such as django-polymorphic know no expressions in filters.
            else rows.alias(mcp_beyond=beyond).filter(equal, mcp_beyond=True)
            for equal, beyond in self._behind(values, vendor)
        ]

    def _behind(self, values: Sequence[Any], vendor: str) -> Iterator[tuple[Q, Any]]:
        """Yield for each key, last to first, the condition of being equal up to it and beyond the place in it."""
        # SQLite uses only the first value of a row comparison for an index lookup, and a second query is cheap there.
        last = len(values) - 1 if vendor == "sqlite" else self._compared_at_once(values)
        for at in range(last, -1, -1):
            equal = Q(*(self._same(key, values[key]) for key in range(at)))
            end = len(values) if at == last else at + 1
            for beyond in self._beyond(at, values[at:end]):
                yield equal, beyond

    def _compared_at_once(self, values: Sequence[Any]) -> int:
        """Return the first key from which on all are compared as one row: same direction and no nulls."""
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
        name = self._names[at]
        return Q(**{f"{name}__isnull": True}) if value is None else Q(**{name: value})

    def _beyond(self, at: int, values: Sequence[Any]) -> Iterator[Any]:
        names, descending = self._names[at : at + len(values)], self._keys[at].is_descending
        if values[0] is not None:
            yield _beyond(names, values, is_descending=descending)
            if self._nullable[at] and not descending:
                yield Q(**{f"{names[0]}__isnull": True})
        elif descending:
            yield Q(**{f"{names[0]}__isnull": False})


def _beyond(names: Sequence[str], values: Sequence[Any], *, is_descending: bool) -> Any:
    # A row comparison is a single range of an index over these columns.
    if len(names) == 1:
        return Q(**{f"{names[0]}__{'lt' if is_descending else 'gt'}": values[0]})
    # The field is a placeholder: a row has no type of its own.
    both = (map(F, names), values)
    sides = [Func(*side, template="(%(expressions)s)", output_field=models.Field()) for side in both]
    sign = "<" if is_descending else ">"
    return Func(*sides, template="%(expressions)s", arg_joiner=f" {sign} ", output_field=models.BooleanField())


def _is_text(end: Any) -> bool:
    return isinstance(value_field(end), models.CharField | models.TextField)


def _is_longer(end: Any, most: int) -> bool:
    # A cursor may be too short for it, so rows are sorted by its beginning.
    return _is_text(end) and (end.max_length is None or end.max_length > most)


MAX_LOOKED_AT = 200
"""Maximum number of rows to check one by one in a call, possibly with a query each."""
BATCH = 100
COUNTED = 1000
"""Rows are counted up to this number, since a count takes time in proportion to it."""
TEXT_IN_LISTS = 400
"""Maximum characters of one text in a list of rows."""
TEXT_ALONE = 20_000
SHORTER = (5000, 1000, TEXT_IN_LISTS, 100)
"""Maximum characters of one text, tried in turn if a single row exceeds the output limit."""


class Page(NamedTuple):
    """Rows as JSON.

    Attributes:
        place: the position after which the next page starts; None on the last page.
        was_cut: True if rows were left out because of the output limit.
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
    context = SerializerContext(access, bound, TEXT_IN_LISTS)
    found = fetch_objects(bound, access, with_output_fields(bound, access, rows, columns), sorting, limit, place)
    load_related_sets(found.objects, columns, bound, access)
    shown: list[dict[str, Any]] = []
    room = bound.resource.max_output_chars
    for at, obj in enumerate(found.objects):
        row = serialize_row(bound, obj, columns, context) if shown else whole_row(bound, obj, columns, context)
        room -= len(to_json(row)) + 2
        if room < 0 and shown:
            return Page(shown, sorting.place(found.objects[at - 1]), was_cut=True)
        shown.append(row)
    return Page(shown, found.place)


def whole_row(
    bound: BoundResource, obj: Any, columns: Sequence[OutputField], context: SerializerContext
) -> dict[str, Any]:
    """Return a row with its texts and untyped values cut to fit into the output limit."""
    row = serialize_row(bound, obj, columns, context)
    for most in SHORTER:
        if len(to_json(row)) <= bound.resource.max_output_chars:
            break
        row = serialize_row(bound, obj, columns, context._replace(most_characters=min(most, context.most_characters)))
        row |= {column.name: _bounded(row[column.name], column.schema, most) for column in columns}
    return row


def _bounded(value: Any, schema: Mapping[str, Any], most: int) -> Any:
    if not isinstance(value, list | dict) or len(to_json(value)) <= most:
        return value
    if not {"type", "anyOf", "$ref"} & schema.keys():
        text = to_json(value).decode()
        return f"{text[:most]}… ({len(text) - most} more characters)"
    if isinstance(value, dict):
        return value
    lengths = accumulate(len(to_json(entry)) + 1 for entry in value)
    return [entry for entry, length in zip(value, lengths, strict=True) if length < most]


def show_row(bound: BoundResource, access: RowAccess, rows: QuerySet[Any]) -> dict[str, Any] | None:
    """Return the first of *rows* as JSON, or None if the caller may not view it."""
    found = read_row(bound, access, rows)
    return None if found is None else found[1]


def read_row(bound: BoundResource, access: RowAccess, rows: QuerySet[Any]) -> tuple[Any, dict[str, Any]] | None:
    """Return the first of *rows* as an object and as JSON, or None if the caller may not view it."""
    for obj in with_output_fields(bound, access, rows, bound.output_fields)[:1]:
        if access.can_view(bound, obj):
            load_related_sets([obj], bound.output_fields, bound, access)
            context = SerializerContext(access, bound, TEXT_ALONE, in_full=True)
            return obj, whole_row(bound, obj, bound.output_fields, context)
    return None


def with_output_fields(
    bound: BoundResource, access: RowAccess, rows: QuerySet[Any], columns: Sequence[OutputField]
) -> QuerySet[Any]:
    """Return *rows* with all that *columns* need, except the sets that ``load_related_sets`` adds."""
    rows = annotate(rows, [column.path.source for column in columns if column.path], access, bound)
    return defer_long_columns(select_and_prefetch(rows, columns, bound, access), columns, bound)


class FetchedRows(NamedTuple):
    """Objects, and the position after which more follow, or None."""

    objects: list[Any]
    place: Sequence[Any] | None


def fetch_objects(
    bound: BoundResource,
    access: RowAccess,
    rows: QuerySet[Any],
    sorting: Sorting,
    limit: int,
    place: Sequence[Any] | None,
) -> FetchedRows:
    ordered = sorting.sorted(rows)
    if not bound.checks_each_row:
        found = _first(limit + 1, [ordered] if place is None else sorting.after(ordered, place))
        more = len(found) > limit
        return FetchedRows(found[:limit], sorting.place(found[limit - 1]) if more else None)
    seen: list[Any] = []
    for _ in range(MAX_LOOKED_AT // BATCH):
        batch = _first(BATCH, [ordered] if place is None else sorting.after(ordered, place))
        for obj in batch:
            if access.can_view(bound, obj):
                if len(seen) == limit:
                    return FetchedRows(seen, sorting.place(seen[-1]))
                seen.append(obj)
        if len(batch) < BATCH:
            return FetchedRows(seen, None)
        place = sorting.place(batch[-1])
    return FetchedRows(seen, place)


def _first(most: int, parts: Sequence[QuerySet[Any]]) -> list[Any]:
    found: list[Any] = []
    for part in parts:
        found += part.prefetch_related(None)[: most - len(found)]
        if len(found) == most:
            break
    # Prefetch once for all parts, so that every page takes the same number of queries.
    for part in parts[:1]:
        prefetch_related_objects(found, *part._prefetch_related_lookups)  # type: ignore[attr-defined]  # noqa: SLF001
    return found


def count_rows(bound: BoundResource, rows: QuerySet[Any]) -> int | None:
    """Return the number of rows, or None if there are too many or they are checked one by one."""
    if bound.checks_each_row:
        return None
    counted = rows.order_by()[: COUNTED + 1].count()
    return counted if counted <= COUNTED else None
