"""What has to outlive a request, and be seen by every worker. Each row says when it may go."""

from django_mcp.models.approvals import Approval as Approval
from django_mcp.models.approvals import ApprovalEvent as ApprovalEvent
from django_mcp.models.approvals import Notice as Notice
from django_mcp.models.approvals import StandingApproval as StandingApproval
from django_mcp.models.approvals import ToolPolicy as ToolPolicy
from django_mcp.models.approvals import Tools as Tools
from django_mcp.models.approvals import ToolSnapshot as ToolSnapshot
from django_mcp.models.auth import APIKey as APIKey
from django_mcp.models.auth import Applications as Applications
from django_mcp.models.auth import ClientPolicy as ClientPolicy
from django_mcp.models.fields import JSONTextField as JSONTextField
from django_mcp.models.request_log import Overview as Overview
from django_mcp.models.request_log import ToolCall as ToolCall
from django_mcp.models.request_log import TryTool as TryTool
from django_mcp.models.streams import Call as Call
from django_mcp.models.streams import Event as Event
from django_mcp.models.streams import PendingRequest as PendingRequest
from django_mcp.models.streams import Session as Session
from django_mcp.models.streams import Step as Step
from django_mcp.models.tasks import OVER as OVER
from django_mcp.models.tasks import Task as Task
from django_mcp.models.tasks import TaskInput as TaskInput
