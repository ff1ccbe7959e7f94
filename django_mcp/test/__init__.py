"""Test kit for sites: an in-process client, and assertions with detailed failure messages.

The client sends what real clients send, through the endpoint, its permissions, policies, approvals and request log.
Calls run in the thread and transaction of the test, so ``django.test.TestCase`` is sufficient. The package includes the
pytest fixtures ``mcp_client`` and ``mcp_revision``.
"""

from django_mcp.test.client import MCPClient as MCPClient
from django_mcp.test.notifications import Notifications as Notifications
from django_mcp.test.responder import CANCEL as CANCEL
from django_mcp.test.responder import DECLINE as DECLINE
from django_mcp.test.results import CallResult as CallResult
from django_mcp.test.results import CompletionResult as CompletionResult
from django_mcp.test.results import Outcome as Outcome
from django_mcp.test.results import PromptResult as PromptResult
from django_mcp.test.results import ResourceResult as ResourceResult
