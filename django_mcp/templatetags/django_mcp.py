"""Template tags for prompts: ``{% load django_mcp %}``.

``{% message "assistant" %}…{% endmessage %}`` is a separate message, ``{% resource "travel://guide" %}`` embeds a
resource with the caller's rights, and ``{% resource_link "travel://guide" %}`` links to it.
"""

from typing import Any, get_args

from django import template
from django.template.base import NodeList, Parser, Token
from django.utils.safestring import mark_safe

from django_mcp.integrations.prompts import Messages, rendering
from django_mcp.protocol.content import Role

register = template.Library()


class MessageNode(template.Node):
    """A message of a prompt. Outside of prompts, renders its contents only."""

    def __init__(self, role: Role, nodelist: NodeList) -> None:
        self.role = role
        self.nodelist = nodelist

    def render(self, context: template.Context) -> Any:
        text, messages = self.nodelist.render(context), rendering.get()
        return text if messages is None else mark_safe(messages.add(self.role, text))  # noqa: S308 - a placeholder


@register.tag
def message(parser: Parser, token: Token) -> MessageNode:
    """``{% message "user" %}`` or ``{% message "assistant" %}``, up to ``{% endmessage %}``."""
    roles = {f"{quote}{role}{quote}": role for role in get_args(Role) for quote in "\"'"}
    match token.split_contents():
        case [_, role] if role in roles:
            nodelist = parser.parse(("endmessage",))
            parser.delete_first_token()
            return MessageNode(roles[role], nodelist)
    msg = '{% message %} takes a role: "user" or "assistant", in quotes.'
    raise template.TemplateSyntaxError(msg)


@register.simple_tag
def resource(uri: str, **variables: Any) -> str:
    """Embed a resource: ``{% resource "travel://cities/{city}" city=city %}``."""
    return mark_safe(_messages("resource").embed(uri, variables))  # noqa: S308 - a placeholder


@register.simple_tag
def resource_link(uri: str, **variables: Any) -> str:
    """Link to a resource: ``{% resource_link "travel://cities/{city}" city=city %}``."""
    return mark_safe(_messages("resource_link").link(uri, variables))  # noqa: S308 - a placeholder


def _messages(tag: str) -> Messages:
    if (messages := rendering.get()) is None:
        msg = f"{{% {tag} %}} works only in templates of prompts: it reads the resource as the caller."
        raise template.TemplateSyntaxError(msg)
    return messages
