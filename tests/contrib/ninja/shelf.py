"""An API made with django-ninja, of books that are kept in memory."""

from collections.abc import AsyncIterator
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from ninja import File, Form, Header, NinjaAPI, PatchDict, Query, Router, Schema, Status, UploadedFile
from ninja.errors import HttpError
from ninja.pagination import LimitOffsetPagination, paginate
from ninja.security import HttpBearer, django_auth, django_auth_is_staff
from ninja.streaming import JSONL
from ninja.throttling import AuthRateThrottle
from pydantic import Field


class BookIn(Schema):
    title: str = Field(min_length=1, description="As it is printed.")
    pages: int = Field(100, ge=1)
    tags: list[str] = []


class BookOut(BookIn):
    id: int
    owner: str | None = None


class Wish(Schema):
    q: str = ""
    min_pages: int = Field(0, ge=0)
    tags: list[str] = Field([], alias="tag")


class Taste(Schema):
    genre: str = "novels"
    year: int | None = None


class Tasted(Schema):
    genre: str
    year: int | None


class Problem(Schema):
    message: str


class LostBookError(Exception):
    pass


class Token(HttpBearer):
    def authenticate(self, request: HttpRequest, token: str) -> str | None:
        return "the machine" if token == "hunter2" else None


def make_api(version: str = "1.0.0", namespace: str = "shelf") -> NinjaAPI:  # noqa: C901, PLR0915 - one of each kind
    """The API, with three books."""
    api = NinjaAPI(version=version, urls_namespace=namespace)
    titles = [("Emma", 474, ["love"]), ("Persuasion", 249, ["love", "sea"]), ("Walden", 352, ["woods"])]
    books: dict[int, dict[str, Any]] = {
        number: {"id": number, "title": title, "pages": pages, "tags": tags, "owner": None}
        for number, (title, pages, tags) in enumerate(titles, start=1)
    }

    def found(pk: int) -> dict[str, Any]:
        if pk not in books:
            raise Http404
        return books[pk]

    @api.exception_handler(LostBookError)
    def lost(request: HttpRequest, error: LostBookError) -> HttpResponse:
        return api.create_response(request, {"message": f"Lost: {error}"}, status=410)

    router = Router(tags=["books"])

    @router.get("/books", response=list[BookOut], operation_id="search_books", summary="Search books")
    @paginate(LimitOffsetPagination)
    def search(request: HttpRequest, wish: Query[Wish]) -> list[dict[str, Any]]:
        """Books, by words of the title."""
        return [
            book
            for book in books.values()
            if wish.q.lower() in book["title"].lower()
            and book["pages"] >= wish.min_pages
            and {*wish.tags} <= {*book["tags"]}
        ]

    @router.get("/books/{pk}", response=BookOut)
    def get_book(request: HttpRequest, pk: int) -> Any:
        return found(pk)

    @router.post("/books", response={201: BookOut, 409: Problem}, auth=django_auth)
    def add_book(request: Any, payload: BookIn) -> Any:
        """Add a book of your own."""
        if any(book["title"] == payload.title for book in books.values()):
            return Status(409, {"message": f"There is {payload.title} already."})
        pk = max(books) + 1
        books[pk] = {"id": pk, "owner": request.auth.username, **payload.dict()}
        return Status(201, books[pk])

    @router.put("/books/{pk}", response=BookOut)
    def replace_book(request: HttpRequest, pk: int, payload: BookIn) -> Any:
        found(pk).update(payload.dict())
        return books[pk]

    @router.patch("/books/{pk}", response=BookOut)
    def change_book(request: HttpRequest, pk: int, payload: PatchDict[BookIn]) -> Any:
        found(pk).update(payload)
        return books[pk]

    @router.delete("/books/{pk}", response={204: None}, auth=django_auth_is_staff)
    def drop_book(request: HttpRequest, pk: int) -> Any:
        del books[found(pk)["id"]]
        return Status(204, None)

    @router.post("/import", response=list[int])
    def import_books(request: HttpRequest, rows: list[BookIn]) -> list[int]:
        return [len(row.title) for row in rows]

    @router.post("/pair", response=list[str])
    def pair(request: HttpRequest, first: BookIn, second: BookIn) -> list[str]:
        return [first.title, second.title]

    @router.post("/books/{pk}/cover")
    def cover(
        request: HttpRequest, pk: int, image: File[UploadedFile], caption: Form[str], wide: Form[bool] = True
    ) -> dict[str, Any]:
        data = image.read()
        return {"name": image.name, "bytes": len(data), "caption": caption, "wide": wide, "kind": image.content_type}

    @router.post("/books/{pk}/scans")
    def scans(request: HttpRequest, pk: int, pages: File[list[UploadedFile]], book: BookIn) -> dict[str, Any]:
        return {"pages": [page.read().decode() for page in pages], "title": book.title}

    @router.post("/books/{int:pk}/note")
    def note(request: HttpRequest, pk: int, text: Form[str], stars: Form[int] = 3) -> dict[str, Any]:
        return {"text": text, "stars": stars}

    @router.post("/taste", response=Tasted, exclude_none=True)
    def taste(request: HttpRequest, payload: Taste) -> Taste:
        return payload

    @router.get("/newest", response={200: BookOut, 204: None})
    def newest(request: HttpRequest, above: int = 0) -> Any:
        pk = max(books)
        return Status(200, books[pk]) if pk > above else Status(204, None)

    @router.put("/titles/{title}")
    def retitle(request: HttpRequest, title: str, payload: BookIn) -> list[str]:
        return [title, payload.title]

    @router.get("/later", response=str)
    async def later(request: Any, name: str = "you") -> str:
        """Says it later."""
        return f"{name} at {request.path}"

    @router.get("/lines", response=JSONL[BookOut])
    def lines(request: HttpRequest) -> Any:
        yield from books.values()

    @router.get("/alines", response=JSONL[BookOut])
    async def alines(request: HttpRequest) -> AsyncIterator[Any]:
        for book in books.values():
            yield book

    @router.get("/old", deprecated=True)
    def old(request: HttpRequest) -> Any:
        return ["x"]

    @router.get("/hidden", include_in_schema=False)
    def hidden(request: HttpRequest) -> str:
        return "hidden"

    api.add_router("", router)

    trouble = Router(tags=["trouble"])

    @trouble.get("/full")
    def full(request: HttpRequest) -> None:
        raise HttpError(507, "unreachable") if request.GET.get("really") else HttpError(409, "The shelf is full.")

    @trouble.get("/lost")
    def lost_book(request: HttpRequest) -> None:
        raise LostBookError("Emma")

    @trouble.get("/broken")
    def broken(request: HttpRequest) -> None:
        raise ValueError("hunter2")

    @trouble.get("/slow", throttle=AuthRateThrottle("1/m"), auth=django_auth)
    def slow(request: HttpRequest) -> str:
        return "once"

    api.add_router("trouble", trouble)

    machines = Router(auth=Token(), tags=["machines"])

    @machines.get("/whoami")
    def whoami(request: Any) -> str:
        return str(request.auth)

    @machines.get("/either", auth=[Token(), django_auth])
    def either(request: Any) -> str:
        return str(request.auth)

    @machines.get("/local", auth=lambda request: request.META["REMOTE_ADDR"] == "10.0.0.1")
    def local(request: Any) -> str:
        return "local"

    api.add_router("machines", machines)

    tenants = Router(tags=["tenants"])

    @tenants.get("/tenant")
    def tenant(request: HttpRequest, x_tenant: Header[str], x_colour: Header[str] = "red") -> str:
        return f"{x_tenant} {x_colour}"

    api.add_router("tenants", tenants)
    return api
