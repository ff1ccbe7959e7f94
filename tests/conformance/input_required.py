"""Tools and a prompt that ask the client, as the scenarios ``input-required-result-*`` want them."""

from pydantic import BaseModel

from django_mcp import Context, Elicitation, Roots, Sampling, prompt, tool


class Name(BaseModel):
    """Who is asked."""

    name: str


class Color(BaseModel):
    """What they like."""

    color: str


class Confirmation(BaseModel):
    """Whether it is right."""

    ok: bool


class UserContext(BaseModel):
    """What a prompt is about."""

    context: str


def greeting(ctx: Context) -> str:
    """Ask for a name, and greet whoever has it."""
    answer = ctx.elicit("What is your name?", Name, key="user_name")
    return f"Hello, {answer.data.name}!" if answer.accepted else "Hello, whoever you are!"


def confirmation(ctx: Context) -> str:
    """Ask for a confirmation."""
    answer = ctx.elicit("Please confirm", Confirmation, key="confirm")
    return "state-ok" if answer.accepted and answer.data.ok else "not confirmed"


@tool
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Greets the user by name."""
    return greeting(ctx)


@tool
def test_streaming_elicitation(ctx: Context) -> str:
    """Greets the user by name, too."""
    return greeting(ctx)


@tool
def test_input_required_result_sampling(ctx: Context) -> str:
    """Asks the client's model for a capital."""
    return ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question").text


@tool
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Asks the client for its roots."""
    return ", ".join(f"{root.name} ({root.uri})" for root in ctx.roots(key="client_roots"))


@tool
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Asks for a confirmation, and is told where it was."""
    return confirmation(ctx)


@tool
def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Asks for a confirmation; a client that changes where it was gets an error."""
    return confirmation(ctx)


@tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Asks a user, a model and the client at once."""
    name, greeted, roots = ctx.ask(
        Elicitation("What is your name?", Name, key="user_name"),
        Sampling("Generate a greeting", max_tokens=50, key="greeting"),
        Roots(key="client_roots"),
    )
    return f"{greeted.text} {name.data.name if name.accepted else 'Somebody'} has {len(roots)} roots."


@tool
def test_input_required_result_multi_round(ctx: Context) -> str:
    """Asks for a name, and then for a color."""
    name = ctx.elicit("Step 1: What is your name?", Name, key="step1")
    color = ctx.elicit("Step 2: What is your favorite color?", Color, key="step2")
    if not (name.accepted and color.accepted):
        return "Some things are better not told."
    return f"{name.data.name} likes {color.data.color}."


@tool
def test_input_required_result_capabilities(ctx: Context) -> str:
    """Asks only what the client can answer."""
    questions = {
        "elicitation": Elicitation("What is your name?", Name, key="user_name"),
        "sampling": Sampling("Generate a greeting", max_tokens=50, key="greeting"),
        "roots": Roots(key="client_roots"),
    }
    answers = ctx.ask(*(question for capability, question in questions.items() if ctx.supports(capability)))
    return f"{len(answers)} questions were answered."


@prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """Asks the user what it is to be about."""
    answer = ctx.elicit("What context should the prompt use?", UserContext, key="user_context")
    return f"Use this context: {answer.data.context if answer.accepted else 'none'}"
