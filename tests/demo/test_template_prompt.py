"""The template that is a prompt of the agency's."""

import json

import pytest

from django_mcp import server as agency
from tests.clients import Client

pytestmark = pytest.mark.usefixtures("travel")


@pytest.fixture
def client(version: str) -> Client:
    return Client(agency, version, "view")


def test_it_is_listed_with_what_the_template_says_of_itself(client):
    prompt = next(entry for entry in client.list("prompts/list") if entry["name"] == "plan-weekend")
    assert prompt["title"] == "Plan a weekend"
    assert prompt["description"] == "Plan a weekend in a city: what to do, where to eat, what to pack."
    assert {each["name"]: each["required"] for each in prompt["arguments"]} == {
        "city": True,
        "month": False,
        "travellers": False,
    }
    assert all(each["description"] for each in prompt["arguments"])


def test_it_asks_for_a_plan_with_the_guide_and_what_there_is_to_eat(client):
    params = {"name": "plan-weekend", "arguments": {"city": "Lisbon", "travellers": "two <adults> & a child"}}
    messages = client.request("prompts/get", params).result["messages"]
    assert [message["role"] for message in messages] == ["user", "user", "user", "user", "assistant"]
    wish, guide, _, food, question = (message["content"] for message in messages)
    assert wish["text"].startswith("Plan a weekend in Lisbon, the next one, for two <adults> & a child.\n")
    assert (guide["resource"]["uri"], guide["resource"]["mimeType"]) == ("travel://guide", "text/markdown")
    assert food["resource"]["uri"] == "travel://activities/Lisbon/food"
    assert all(offer["price"] for offer in json.loads(food["resource"]["text"]))
    assert question["text"] == "Before I begin: where do you start from, and can you leave on Friday?"


def test_of_a_city_that_it_does_not_know_it_says_so(client):
    error = client.request("prompts/get", {"name": "plan-weekend", "arguments": {"city": "Atlantis"}}).error
    assert (error["message"], error["data"]) == ("Resource not found", {"uri": "travel://activities/Atlantis/food"})


def test_cities_are_completed(client):
    params = {"ref": {"type": "ref/prompt", "name": "plan-weekend"}, "argument": {"name": "city", "value": "barc"}}
    assert client.request("completion/complete", params).result["completion"]["values"] == ["Barcelona"]
