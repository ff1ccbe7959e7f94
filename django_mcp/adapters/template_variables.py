"""What a Django template takes: the variables it uses and does not bind itself."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.template.base import FilterExpression, NodeList, Template, TokenType, Variable
from django.template.defaulttags import FilterNode, FirstOfNode, ForNode, IfNode, RegroupNode, WithNode
from django.template.loader_tags import BlockNode, ExtendsNode, IncludeNode, construct_relative_path
from django.templatetags.i18n import BlockTranslateNode

GIVEN = frozenset({
    *("True", "False", "None", "csrf_token", "request", "user", "perms", "messages", "DEFAULT_MESSAGE_LEVELS"),
    *("LANGUAGES", "LANGUAGE_CODE", "LANGUAGE_BIDI", "TIME_ZONE", "STATIC_URL", "MEDIA_URL", "debug", "sql_queries"),
})  # fmt: skip
"""What Django itself and its context processors give to templates."""

_BINDING = ("asvar", "target_var", "variable_name", "variable", "var_name", "varname")
"""Attributes under which tags keep the name after ``as``."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """Where in a template one is.

    Attributes:
        bound: names that the template itself gives a value here.
        tested: names that an ``{% if %}`` around has looked at.
        blocks: for each block those that override it, the one furthest from the base first.
        supers: what ``block.super`` is, here and further down.
        files: of which templates this is a part, through includes.
    """

    bound: frozenset[str] = frozenset()
    tested: frozenset[str] = frozenset()
    blocks: Mapping[str, Sequence[BlockNode]] = dataclasses.field(default_factory=dict)
    supers: Sequence[BlockNode] = ()
    files: frozenset[str] = frozenset()

    def binding(self, *names: str | None) -> "Scope":
        """The scope in which *names* are bound too."""
        return dataclasses.replace(self, bound=self.bound.union(filter(None, names)))


class Reading:
    """The variables of a template and of all it extends and includes.

    Attributes:
        required: for each variable, in the order of appearance, whether the template needs it: whether it is used
            somewhere with neither a ``default`` nor an ``{% if %}`` around that looks at it.
        unread: what it includes or extends by a variable, so that it cannot be read.

    Raises:
        TemplateDoesNotExist, TemplateSyntaxError: of what it extends or includes.
    """

    def __init__(self, template: Template) -> None:
        self.required: dict[str, bool] = {}
        self.unread: list[str] = []
        self._engine = template.engine
        self._nodes(template.nodelist, Scope())

    def _nodes(self, nodes: Iterable[Any], scope: Scope) -> Scope:
        """The scope after *nodes*: what a tag binds stays bound for those that follow it."""
        for node in nodes:
            scope = self._node(node, scope)
        return scope

    def _node(self, node: Any, scope: Scope) -> Scope:
        match node:
            case IfNode():
                return self._if(node, scope)
            case ForNode():
                self._value(node.sequence, scope)
                self._nodes(node.nodelist_loop, scope.binding(*node.loopvars, "forloop"))
                self._nodes(node.nodelist_empty, scope)
            case WithNode():
                self._value(node.extra_context, scope)
                self._nodes(node.nodelist, scope.binding(*node.extra_context))
            case BlockTranslateNode():
                return self._translation(node, scope)
            case IncludeNode():
                self._include(node, scope)
            case ExtendsNode():
                self._extends(node, scope)
            case BlockNode():
                self._block((*scope.blocks.get(node.name, ()), node), scope)
            case _:
                return self._tag(node, scope)
        return scope

    def _tag(self, node: Any, scope: Scope) -> Scope:
        """Any other tag: its expressions are what it uses, its lists of nodes what it has inside."""
        inside = scope
        match node:
            case FilterNode():
                inside = scope.binding("var")
            case RegroupNode():
                inside = scope.binding(node.var_name)
            case FirstOfNode():
                inside = dataclasses.replace(scope, tested=scope.tested.union(_names(node.vars)))
        after = scope
        for value in vars(node).values():
            if isinstance(value, NodeList):
                after = self._nodes(value, after)
            else:
                self._value(value, inside)
        own = (getattr(node, name, None) for name in _BINDING)
        return after.binding(*(name for name in own if isinstance(name, str)))

    def _if(self, node: IfNode, scope: Scope) -> Scope:
        conditions = [condition for condition, _ in node.conditions_nodelists]
        inside = dataclasses.replace(scope, tested=scope.tested.union(_names(conditions)))
        bound = scope.bound
        for condition, nodelist in node.conditions_nodelists:
            self._value(condition, inside)
            bound |= self._nodes(nodelist, inside).bound
        return scope.binding(*bound)

    def _translation(self, node: BlockTranslateNode, scope: Scope) -> Scope:
        self._value([node.extra_context, node.counter, node.message_context], scope)
        inside = scope.binding(*node.extra_context, node.countervar)
        for token in (*node.singular, *(node.plural or ())):
            if token.token_type == TokenType.VAR:
                self._use(token.contents, inside)
        return scope.binding(node.asvar)

    def _include(self, node: IncludeNode, scope: Scope) -> None:
        self._value([node.template, node.extra_context], scope)
        name = self._literal(node.template)
        if name is None:
            return
        template = self._engine.get_template(construct_relative_path(str(node.origin.template_name), name))
        if not node.isolated_context and template.name not in scope.files:
            files = scope.files | {str(template.name)}
            inside = dataclasses.replace(scope, blocks={}, supers=(), files=files).binding(*node.extra_context)
            self._nodes(template.nodelist, inside)

    def _extends(self, node: ExtendsNode, scope: Scope) -> None:
        self._value(node.parent_name, scope)
        name = self._literal(node.parent_name)
        if name is None:
            return
        parent, _ = self._engine.find_template(name, skip=[node.origin])
        blocks = {name: (*scope.blocks.get(name, ()), block) for name, block in node.blocks.items()}
        self._nodes(parent.nodelist, dataclasses.replace(scope, blocks={**scope.blocks, **blocks}))

    def _block(self, chain: Sequence[BlockNode], scope: Scope) -> None:
        """The first of *chain*, which is what is rendered; the others as far as it says ``block.super``."""
        self._nodes(chain[0].nodelist, dataclasses.replace(scope, supers=chain[1:]).binding("block"))

    def _literal(self, expression: Any) -> str | None:
        """The name of a template, where it stands in the tag as it is."""
        if isinstance(expression.var, str) and not expression.filters:
            return str(expression.var)
        self.unread.append(expression.token)
        return None

    def _value(self, value: Any, scope: Scope) -> None:
        """Use all variables in an expression, a condition or a collection of them."""
        for name, needed in _uses(value):
            if name == "block.super" and scope.supers:
                self._block(scope.supers, scope)
            self._use(name, scope, needed=needed)

    def _use(self, variable: str, scope: Scope, *, needed: bool = True) -> None:
        name = variable.partition(".")[0]
        if name not in scope.bound:
            self.required[name] = self.required.get(name, False) or (needed and name not in scope.tested)


def _uses(value: Any) -> Iterable[tuple[str, bool]]:
    """The variables in *value*, with their attributes, and whether they are used without a default."""
    match value:
        case Variable(lookups=tuple(lookups)):
            yield ".".join(lookups), True
        case FilterExpression():
            names = {getattr(function, "_filter_name", "") for function, _ in value.filters}
            has_default = not names.isdisjoint({"default", "default_if_none"})
            yield from ((name, not has_default) for name, _ in _uses(value.var))
            yield from _uses([argument for _, arguments in value.filters for _, argument in arguments])
        case dict():
            yield from _uses(list(value.values()))
        case list() | tuple():
            for each in value:
                yield from _uses(each)
        case _:  # a part of the condition of an {% if %}: a literal, or an operator with one or two sides
            for attribute in ("value", "first", "second"):
                yield from _uses(getattr(value, attribute, ()))


def _names(value: Any) -> Iterable[str]:
    return {name.partition(".")[0] for name, _ in _uses(value)}
