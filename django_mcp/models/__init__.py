"""Database models. Rows that expire state when; ``mcp_clear`` deletes them."""

from django_mcp.models.approvals import Approval as Approval
from django_mcp.models.approvals import ApprovalEvent as ApprovalEvent
from django_mcp.models.approvals import AutoApprovalRule as AutoApprovalRule
from django_mcp.models.approvals import Notice as Notice
from django_mcp.models.approvals import ToolPolicy as ToolPolicy
from django_mcp.models.approvals import Tools as Tools
from django_mcp.models.approvals import ToolSnapshot as ToolSnapshot
from django_mcp.models.auth import APIKey as APIKey
from django_mcp.models.auth import ClientPolicy as ClientPolicy
from django_mcp.models.auth import OAuthClient as OAuthClient
from django_mcp.models.fields import JSONTextField as JSONTextField
from django_mcp.models.request_log import Overview as Overview
from django_mcp.models.request_log import Playground as Playground
from django_mcp.models.request_log import RequestLog as RequestLog
from django_mcp.models.streams import Call as Call
from django_mcp.models.streams import Event as Event
from django_mcp.models.streams import EventSequence as EventSequence
from django_mcp.models.streams import PendingRequest as PendingRequest
from django_mcp.models.streams import Session as Session
from django_mcp.models.streams import Step as Step
from django_mcp.models.tasks import OVER as OVER
from django_mcp.models.tasks import Task as Task
from django_mcp.models.tasks import TaskInput as TaskInput
