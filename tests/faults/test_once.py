"""``ctx.once``: what is not to be done twice, whatever happens in between."""

import http.client

import pytest

from tests.faults.conftest import Workers
from tests.faults.wire import Legacy, Modern, question_of, text


def test_an_act_before_a_question_is_done_once_and_what_it_wrote_stays(pair: Workers, label: str) -> None:
    asked = Modern(pair[0]).call("act_and_ask", label=label)
    assert text(Modern(pair[1]).call("notes", label=label)) == "1", "it is committed although the round was rolled back"

    assert text(Modern(pair[1]).go_on("act_and_ask", asked, label=label)) == "1 yes to now"

    assert text(Modern(pair[0]).call("notes", label=label)) == "1"
    assert pair.journal().count(f"acted {label}") == 1


def test_an_act_before_a_question_is_done_once_for_an_older_client_too(pair: Workers, label: str) -> None:
    client = Legacy(pair[0]).open()
    stream = client.start("act_and_ask", label=label)
    asked = question_of(stream)

    assert client.at(pair[1]).answer(asked.message) == 202

    assert text(stream.last()) == "1 yes to And now?"
    assert text(client.call("notes", label=label)) == "1"
    assert pair.journal().count(f"acted {label}") == 1


def test_an_act_in_which_the_process_died_is_not_begun_again(pair: Workers, label: str) -> None:
    client = Modern(pair[0])
    arguments = {"label": label, "deadly": True}
    asked = client.call("ask_and_die", **arguments)
    with pytest.raises((http.client.HTTPException, OSError)):
        client.go_on("ask_and_die", asked, **arguments)
    pair.dead(0)

    answer = client.at(pair[1]).go_on("ask_and_die", asked, **arguments)

    assert answer["result"]["isError"]
    assert "'act' was started before and its outcome is unknown" in text(answer)
    assert pair.journal().count(f"acted {label}") == 1
    assert text(client.at(pair[1]).call("notes", label=label)) == "0", "it was not committed"


def test_an_act_inside_a_transaction_of_the_tools_own_is_refused_in_the_log(pair: Workers, label: str) -> None:
    answer = Modern(pair[0]).call("act_in_atomic", label=label)

    assert answer["result"]["isError"]
    assert text(answer).startswith("Internal server error.")
    reference = text(answer).rpartition(" ")[2].rstrip(".")
    log = pair.log(0)
    assert "ctx.once commits, so it cannot be called inside transaction.atomic(); call it before" in log
    assert f"[{reference}]" in log
    assert f"acted {label}" not in pair.journal()
