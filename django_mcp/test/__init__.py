"""For tests of a site: a client in the same process and transaction, and assertions that say what came instead.

The client sends what real clients send, and passes the endpoint, the protocol revision, permissions, policies,
approvals and the log as they do. Calls run in the thread and the transaction of the test, so ``django.test.TestCase``
is enough. Fixtures for pytest come with the package: ``mcp_client`` and ``mcp_revision``.
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
