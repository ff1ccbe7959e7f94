"""Refresh tokens: rotation, and the moment after it in which the old one still works."""

import logging
import threading
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections, transaction
from django.utils import timezone

from django_mcp.auth.toolkit import get_access_token_model, get_refresh_token_model
from django_mcp.oauth import validator as grace
from tests.oauth.site import Site

pytestmark = pytest.mark.postgresql

AccessToken, RefreshToken = get_access_token_model(), get_refresh_token_model()


def good(response: Any) -> dict[str, Any]:
    assert response.status_code == 200, response.content.decode()
    return response.json()


def refused(response: Any) -> None:
    assert response.status_code == 400, response.content.decode()
    assert response.json()["error"] == "invalid_grant"


def live() -> int:
    return int(RefreshToken.objects.filter(revoked=None, access_token__isnull=False).count())


def families() -> int:
    return len(set(RefreshToken.objects.values_list("token_family", flat=True)))


def let_pass(seconds: int) -> None:
    """Make everything that was revoked older."""
    for row in RefreshToken.objects.exclude(revoked=None):
        RefreshToken.objects.filter(pk=row.pk).update(revoked=row.revoked - timedelta(seconds=seconds))


def test_every_use_replaces_it_and_its_access_token(site: Site) -> None:
    first = site.tokens_for()
    second = good(site.refresh(first["refresh_token"]))
    assert second["refresh_token"] != first["refresh_token"]
    assert second["access_token"] != first["access_token"]
    assert site.status(first["access_token"]) == 401
    assert site.status(second["access_token"]) == 200
    assert (live(), families()) == (1, 1)


def test_nothing_is_stored_that_could_be_used(site: Site) -> None:
    tokens = good(site.refresh(site.tokens_for()["refresh_token"]))
    stored = str([*AccessToken.objects.values(), *RefreshToken.objects.values()])
    assert tokens["access_token"] not in stored
    assert tokens["refresh_token"] not in stored


def test_a_second_use_within_the_grace_period_gives_tokens_of_its_own(site: Site) -> None:
    first = site.tokens_for(scope="travel:write")
    second = good(site.refresh(first["refresh_token"]))
    sibling = good(site.refresh(first["refresh_token"]))
    assert sibling["refresh_token"] != second["refresh_token"]
    assert sibling["scope"] == "travel:write"
    for tokens in (second, sibling):
        assert site.status(tokens["access_token"]) == 200
        assert site.status(tokens["access_token"], site.beta) == 401
    assert (live(), families()) == (2, 1)


def test_siblings_go_on_separately(site: Site) -> None:
    first = site.tokens_for()
    second, sibling = (good(site.refresh(first["refresh_token"])) for _ in range(2))
    third, cousin = (good(site.refresh(each["refresh_token"])) for each in (second, sibling))
    assert [site.status(each["access_token"]) for each in (second, sibling, third, cousin)] == [401, 401, 200, 200]
    assert (live(), families()) == (2, 1)


def test_a_sibling_has_the_scopes_of_what_replaced_it(site: Site) -> None:
    first = site.tokens_for(scope="travel:write")
    good(site.refresh(first["refresh_token"], scope="travel:read"))
    assert good(site.refresh(first["refresh_token"]))["scope"] == "travel:read"
    refused_scope = site.refresh(first["refresh_token"], scope="travel:write")
    assert refused_scope.json() == {"error": "invalid_scope"}


def test_a_sibling_is_for_the_endpoints_its_token_was_for(site: Site) -> None:
    first = site.tokens_for()
    good(site.refresh(first["refresh_token"]))
    response = site.refresh(first["refresh_token"], resource=site.resource(site.beta))
    assert response.json()["error"] == "invalid_target"
    good(site.refresh(first["refresh_token"], resource=site.resource()))


def test_after_the_grace_period_it_costs_all_tokens_of_the_login(site: Site) -> None:
    first = site.tokens_for()
    second, sibling = (good(site.refresh(first["refresh_token"])) for _ in range(2))
    let_pass(60)
    refused(site.refresh(first["refresh_token"]))
    assert [site.status(each["access_token"]) for each in (second, sibling)] == [401, 401]
    refused(site.refresh(second["refresh_token"]))
    refused(site.refresh(sibling["refresh_token"]))
    assert (live(), AccessToken.objects.count()) == (0, 0)


def test_just_before_its_end_the_grace_period_still_holds(site: Site) -> None:
    first = site.tokens_for()
    good(site.refresh(first["refresh_token"]))
    let_pass(50)
    good(site.refresh(first["refresh_token"]))


def test_the_grace_period_can_be_switched_off(site: Site) -> None:
    site.configure(REFRESH_TOKEN_GRACE_TTL=0)
    first = site.tokens_for()
    second = good(site.refresh(first["refresh_token"]))
    refused(site.refresh(first["refresh_token"]))
    assert site.status(second["access_token"]) == 401


def test_what_was_revoked_has_no_grace_period(site: Site, subtests: pytest.Subtests) -> None:
    for which in [0, 1]:
        for what in ["refresh_token", "access_token"]:
            with subtests.test(what=what, which=which), site.afresh():
                first = site.tokens_for()
                second = good(site.refresh(first["refresh_token"]))
                assert site.revoke([first, second][which][what]).status_code == 200
                gone = (
                    what == "access_token" and which == 0
                )  # it died when it was replaced, so there is nothing to revoke
                if not gone:
                    refused(site.refresh(first["refresh_token"]))
                    refused(site.refresh(second["refresh_token"]))
                    assert live() == 0


def test_a_token_that_was_replaced_twice_has_none(site: Site) -> None:
    first = site.tokens_for()
    third = good(site.refresh(good(site.refresh(first["refresh_token"]))["refresh_token"]))
    refused(site.refresh(first["refresh_token"]))
    assert site.status(third["access_token"]) == 401
    assert live() == 0


def test_five_uses_give_five_siblings(site: Site) -> None:
    first = site.tokens_for()
    answers = [good(site.refresh(first["refresh_token"])) for _ in range(6)]
    assert len({each["refresh_token"] for each in answers}) == 6
    assert (live(), families()) == (6, 1)


def test_a_login_has_eight_siblings_at_most(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    first = site.tokens_for()
    answers = [good(site.refresh(first["refresh_token"])) for _ in range(8)]
    with caplog.at_level(logging.WARNING, "django_mcp"):
        refused(site.refresh(first["refresh_token"]))
    assert "was reused" in caplog.text
    assert live() == 8
    assert all(site.status(each["access_token"]) == 200 for each in answers)


def test_every_sibling_is_logged_and_no_token(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    first = site.tokens_for()
    good(site.refresh(first["refresh_token"]))
    with caplog.at_level(logging.INFO, "django_mcp"):
        sibling = good(site.refresh(first["refresh_token"]))
    assert [each.levelname for each in caplog.records if "grace period" in each.getMessage()] == ["INFO"]
    assert first["refresh_token"] not in caplog.text
    assert sibling["refresh_token"] not in caplog.text


def test_another_client_cannot_use_it(site: Site) -> None:
    other, first = site.make_client("other"), site.tokens_for()
    refused(site.refresh(first["refresh_token"], other))
    good(site.refresh(first["refresh_token"]))
    refused(site.refresh(first["refresh_token"], other))
    assert not AccessToken.objects.filter(application=other).exists()


def test_the_grace_period_is_for_active_users(site: Site, subtests: pytest.Subtests) -> None:
    for change in ["inactive", "deleted"]:
        with subtests.test(change=change), site.afresh():
            first = site.tokens_for()
            good(site.refresh(first["refresh_token"]))
            site.user.is_active = False
            site.user.save()
            if change == "deleted":
                site.user.delete()
            refused(site.refresh(first["refresh_token"]))
            assert live() == 0


def test_a_row_without_a_family_has_no_grace_period(site: Site) -> None:
    first = site.tokens_for()
    RefreshToken.objects.update(token_family=None)
    good(site.refresh(first["refresh_token"]))
    refused(site.refresh(first["refresh_token"]))


def test_a_refresh_token_expires(site: Site) -> None:
    first = site.tokens_for()
    AccessToken.objects.update(expires=timezone.now() - timedelta(days=30))
    refused(site.refresh(first["refresh_token"]))


def test_an_unknown_refresh_token_is_refused(site: Site, subtests: pytest.Subtests) -> None:
    for token in ["unknown", "x" * 10_000, "ü", "", None]:
        with subtests.test(token=token), site.afresh():
            response = site.token(grant_type="refresh_token", client_id="conf-public", refresh_token=token)
            assert response.status_code == 400
            assert response.json()["error"] in {"invalid_grant", "invalid_request"}


# At the same time


class Meeting:
    """Lets two requests pass validation before either saves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, people: int = 2) -> None:
        from django_mcp.oauth.validator import Validator

        barrier = threading.Barrier(people, timeout=20)
        save = Validator.save_bearer_token

        def met(validator: Any, *args: Any, **options: Any) -> Any:
            barrier.wait()
            return save(validator, *args, **options)

        monkeypatch.setattr(Validator, "save_bearer_token", met)


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What each call answers; each on a thread, and so a database connection, of its own."""
    answers: list[Any] = [None] * len(calls)

    def run(place: int) -> None:
        try:
            answers[place] = calls[place]()
        except Exception as error:  # noqa: BLE001 - a test compares it
            answers[place] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(calls))]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    return answers


def test_two_at_once_both_get_tokens(live_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    first = live_site.tokens_for()
    Meeting(monkeypatch)
    answers = at_once(*[lambda: live_site.refresh(first["refresh_token"])] * 2)
    one, other = (good(each) for each in answers)
    assert one["refresh_token"] != other["refresh_token"]
    assert [live_site.status(each["access_token"]) for each in (one, other)] == [200, 200]
    assert (live(), families()) == (2, 1)


def test_one_that_comes_between_our_look_and_the_toolkits_costs_nobody_anything(
    live_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The toolkit reads the row again; had it been replaced by then, it would revoke all tokens of the login."""
    from django_mcp.auth.toolkit import OAuth2Validator

    first = live_site.tokens_for()
    look = OAuth2Validator.validate_refresh_token
    answers: list[Any] = []
    other = threading.Thread(target=lambda: answers.extend(at_once(lambda: live_site.refresh(first["refresh_token"]))))

    def met(*args: Any, **options: Any) -> Any:
        if not other.ident:
            other.start()
            other.join(1)  # it has its answer by then, or waits for us
        return look(*args, **options)

    monkeypatch.setattr(OAuth2Validator, "validate_refresh_token", met)
    mine = good(live_site.refresh(first["refresh_token"]))
    other.join(30)
    theirs = good(answers[0])
    assert [live_site.status(each["access_token"]) for each in (mine, theirs)] == [200, 200]


def test_without_a_grace_period_neither_of_two_at_once_keeps_any(
    live_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    live_site.configure(REFRESH_TOKEN_GRACE_TTL=0)
    first = live_site.tokens_for()
    Meeting(monkeypatch)
    answers = at_once(*[lambda: live_site.refresh(first["refresh_token"])] * 2)
    assert sorted(each.status_code for each in answers) in ([200, 400], [400, 400])
    assert live() == 0
    assert all(live_site.status(each.json().get("access_token", "x")) == 401 for each in answers)


def test_many_at_once_get_no_more_than_eight(live_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grace, "MAX_SIBLINGS", 2)
    first = live_site.tokens_for()
    Meeting(monkeypatch, 4)
    answers = at_once(*[lambda: live_site.refresh(first["refresh_token"])] * 4)
    assert sorted(each.status_code for each in answers) == [200, 200, 400, 400]
    assert live() == 2


def test_one_that_is_revoked_while_it_is_used_gives_nothing(live_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from django_mcp.oauth.validator import Validator

    first = live_site.tokens_for()
    save = Validator.save_bearer_token

    def revoked_meanwhile(validator: Any, *args: Any, **options: Any) -> Any:
        live_site.revoke(first["refresh_token"])
        return save(validator, *args, **options)

    monkeypatch.setattr(Validator, "save_bearer_token", revoked_meanwhile)
    refused(live_site.refresh(first["refresh_token"]))
    assert (live(), AccessToken.objects.count()) == (0, 0)


def test_tokens_that_are_revoked_before_they_are_sent_are_not_sent(
    live_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django_mcp.oauth.validator import Validator

    code = live_site.code_for()
    save = Validator.save_bearer_token

    def revoked_at_once(*args: Any, **options: Any) -> None:
        save(*args, **options)
        RefreshToken.revoke_family(RefreshToken.objects.get().token_family)

    monkeypatch.setattr(Validator, "save_bearer_token", revoked_at_once)
    assert live_site.exchange(code).json()["error"] == "invalid_grant"


def test_of_four_with_the_same_code_one_gets_tokens(live_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    code = live_site.code_for()
    Meeting(monkeypatch, 4)
    answers = at_once(*[lambda: live_site.exchange(code)] * 4)
    assert sorted(each.status_code for each in answers) == [200, 400, 400, 400]
    assert (AccessToken.objects.count(), RefreshToken.objects.count()) == (1, 1)


def test_a_code_that_goes_between_two_looks_is_refused(live_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A code's row is read once, so nothing fails when another request takes it."""
    from django_mcp.oauth.validator import Validator

    code = live_site.code_for()
    validate = Validator.validate_code

    def taken_meanwhile(validator: Any, *args: Any, **options: Any) -> Any:
        found = validate(validator, *args, **options)
        monkeypatch.setattr(Validator, "validate_code", validate)
        live_site.exchange(code)
        return found

    monkeypatch.setattr(Validator, "validate_code", taken_meanwhile)
    refused(live_site.exchange(code))
    assert live() == 1


def test_the_family_of_a_code_does_not_depend_on_the_process() -> None:
    from django_mcp.oauth.grants import family_of

    assert family_of("code") == family_of("code") != family_of("another")
    assert isinstance(family_of("code"), uuid.UUID)
    assert (family_of("code").version, family_of("code").variant) == (5, uuid.RFC_4122)  # MariaDB takes no others


def test_a_family_is_revoked_even_within_the_sites_own_transaction(site: Site) -> None:
    first = site.tokens_for()
    second = good(site.refresh(first["refresh_token"]))
    let_pass(60)
    with transaction.atomic():
        refused(site.refresh(first["refresh_token"]))
    assert site.status(second["access_token"]) == 401
