"""What has to outlive a request, and be seen by every worker. Each row says when it may go."""

from django_mcp.models.access import APIKey as APIKey
from django_mcp.models.access import ClientPolicy as ClientPolicy
from django_mcp.models.applications import Applications as Applications
from django_mcp.models.calls import ToolCall as ToolCall
from django_mcp.models.control import Approval as Approval
from django_mcp.models.control import ApprovalEvent as ApprovalEvent
from django_mcp.models.control import KnownTool as KnownTool
from django_mcp.models.control import Notice as Notice
from django_mcp.models.control import StandingApproval as StandingApproval
from django_mcp.models.control import ToolPolicy as ToolPolicy
from django_mcp.models.fields import JSONTextField as JSONTextField
from django_mcp.models.overview import Overview as Overview
from django_mcp.models.streams import Call as Call
from django_mcp.models.streams import Event as Event
from django_mcp.models.streams import PendingRequest as PendingRequest
from django_mcp.models.streams import Session as Session
from django_mcp.models.streams import Step as Step
from django_mcp.models.tasks import OVER as OVER
from django_mcp.models.tasks import Task as Task
from django_mcp.models.tasks import TaskInput as TaskInput
from django_mcp.models.tools import Tools as Tools
from django_mcp.models.trying import TryTool as TryTool
