"""Run ``mcp_doctor`` as often as it is asked to, for one site: ``python -m tests.doctor.commander``.

Each line of the input is a JSON object: the arguments of one run, and constants of its probes with other values. A line
of the output is a JSON object with its exit code and what it printed.
"""

import io
import json
import sys
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import django
from django.core.management import CommandError, call_command


def look(arguments: list[str], probes: dict[str, Any]) -> tuple[int, str]:
    """The exit code, and what was printed."""
    output = io.StringIO()
    try:
        with patch.multiple("django_mcp.doctor.probes", **probes) if probes else nullcontext():
            call_command("mcp_doctor", *arguments, stdout=output)
    except SystemExit as end:
        return int(end.code or 0), output.getvalue()
    except CommandError as error:
        sys.stderr.write(f"CommandError: {error}\n")
        return error.returncode, output.getvalue()
    return 0, output.getvalue()


if __name__ == "__main__":
    django.setup()
    for line in sys.stdin:
        code, said = look(**json.loads(line))
        sys.stdout.write(json.dumps({"code": code, "said": said}) + "\n")
        sys.stdout.flush()
