"""For tests of a site: a client in the same process and transaction, and assertions that say what came instead.

The client sends what real clients send, and passes the gate, the era, rights, policies, approvals and the log as they
do. Calls run in the thread and the transaction of the test, so ``django.test.TestCase`` is enough. Fixtures for pytest
come with the package: ``mcp_client`` and ``mcp_era``.
"""

from django_mcp.test.client import MCPClient as MCPClient
from django_mcp.test.notifications import Heard as Heard
from django_mcp.test.responder import CANCEL as CANCEL
from django_mcp.test.responder import DECLINE as DECLINE
from django_mcp.test.results import Called as Called
from django_mcp.test.results import Completed as Completed
from django_mcp.test.results import Got as Got
from django_mcp.test.results import Outcome as Outcome
from django_mcp.test.results import Read as Read
