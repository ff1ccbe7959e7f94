"""Evaluation of untrusted arithmetic expressions.

``simpleeval`` walks the syntax tree and runs no Python. It may use numbers, operators and some functions here, each
bounded, so that no expression takes long or fills the memory.
"""

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

from simpleeval import (
    FeatureNotAvailable,
    FunctionNotDefined,
    InvalidExpression,
    NameNotDefined,
    OperatorNotDefined,
    SimpleEval,
)

Number = int | float

MAX_CHARACTERS = 200
MAX_BITS = 1024  # as many as the largest float has
LARGEST_FACTORIAL = 100


class CalculationError(ValueError):
    """The expression cannot be evaluated; the message has the reason."""


# The first match explains the error.
EXPLANATIONS: dict[tuple[type[Exception], ...], str] = {
    (ZeroDivisionError,): "Division by zero.",
    (OverflowError,): "The result is too large.",
    (FeatureNotAvailable, OperatorNotDefined): "Only numbers, + - * / // % **, brackets and functions are allowed.",
    (SyntaxError, MemoryError, RecursionError, InvalidExpression, TypeError): "This is not an arithmetic expression.",
    (ValueError,): "The result is not a real number.",  # math domain error
}
FAULTS = tuple(kind for kinds in EXPLANATIONS for kind in kinds)


def calculate(expression: str) -> Number:
    """Return the value of an arithmetic *expression*, such as ``2 * (3 + sqrt(16))``.

    Raises:
        CalculationError: it is not arithmetic, has no finite real value, or is too large.
    """
    if not expression.strip():
        raise CalculationError("The expression is empty.")
    if len(expression) > MAX_CHARACTERS:
        raise CalculationError(f"The expression is too long: at most {MAX_CHARACTERS} characters.")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        value = _evaluator().eval(expression, previously_parsed=tree.body)
    except CalculationError:
        raise
    except FAULTS as error:
        raise CalculationError(_explained(error)) from None
    return _checked(value)


def _explained(error: Exception) -> str:
    match error:
        case NameNotDefined():
            return f"Unknown name ‘{error.name}’. Available: {', '.join(NAMES)}."
        case FunctionNotDefined():
            return f"Unknown function ‘{error.func_name}’. Available: {', '.join(FUNCTIONS)}."
    return next(message for kinds, message in EXPLANATIONS.items() if isinstance(error, kinds))


def _checked(value: Any) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CalculationError("The result is not a real number.")
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise CalculationError("The result is too large.")
    if isinstance(value, float) and not math.isfinite(value):
        raise CalculationError("The result is not a finite number.")
    return value


def _bounded(function: Callable[..., Any]) -> Callable[..., Number]:
    """Return *function* with its result checked, so that no later step can be expensive."""

    def bounded(*values: Number) -> Number:
        return _checked(function(*values))

    return bounded


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > 2 * MAX_BITS:
        raise CalculationError("The result is too large.")
    return base**exponent


def _factorial(value: Number) -> int:
    if value != int(value) or not 0 <= value <= LARGEST_FACTORIAL:
        raise CalculationError(f"factorial() takes a whole number from 0 to {LARGEST_FACTORIAL}.")
    return math.factorial(int(value))


def _round(value: Number, digits: Number = 0) -> Number:
    if not -20 <= digits <= 20:
        raise CalculationError("round() takes from -20 to 20 digits.")
    return round(value, int(digits)) if digits else round(value)


OPERATORS: dict[type[ast.AST], Callable[..., Number]] = {
    ast.Add: _bounded(operator.add),
    ast.Sub: _bounded(operator.sub),
    ast.Mult: _bounded(operator.mul),
    ast.Div: _bounded(operator.truediv),
    ast.FloorDiv: _bounded(operator.floordiv),
    ast.Mod: _bounded(operator.mod),
    ast.Pow: _bounded(_power),
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
FUNCTIONS: dict[str, Callable[..., Number]] = {
    name: _bounded(function)
    for name, function in {
        "abs": abs,
        "acos": math.acos,
        "asin": math.asin,
        "atan": math.atan,
        "atan2": math.atan2,
        "ceil": math.ceil,
        "cos": math.cos,
        "degrees": math.degrees,
        "exp": math.exp,
        "factorial": _factorial,
        "floor": math.floor,
        "hypot": math.hypot,
        "log": math.log,
        "log10": math.log10,
        "log2": math.log2,
        "max": max,
        "min": min,
        "radians": math.radians,
        "round": _round,
        "sin": math.sin,
        "sqrt": math.sqrt,
        "tan": math.tan,
    }.items()
}
NAMES: dict[str, float] = {"e": math.e, "pi": math.pi, "tau": math.tau}
SYNTAX = (ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.Call)


def _evaluator() -> SimpleEval:
    evaluator = SimpleEval(operators=OPERATORS, functions=FUNCTIONS, names=NAMES)
    evaluator.nodes = {node: evaluate for node, evaluate in evaluator.nodes.items() if node in SYNTAX}
    evaluator.nodes[ast.Constant] = lambda node: _checked(node.value)  # no strings
    return evaluator
