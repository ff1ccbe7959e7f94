"""FastMCP's client, which drives tasks by itself. It has an environment of its own, for it brings many packages.

In:  url, key, what elicitations are answered with (answer), and calls, each a tool and its arguments; or a tool to be
     cancelled once it says something that begins with given words (cancel_at).
Out: for each call its text, its structured content and whether it is an error; the states of the cancelled task;
     and what was asked.
"""

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp_tasks import call_tool_task

SCRIPT: dict[str, Any] = json.load(sys.stdin)
asked: list[str] = []


async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
    asked.append(message)
    return SCRIPT["answer"]


async def main() -> None:
    headers = {"authorization": f"Bearer {SCRIPT['key']}"}
    transport = StreamableHttpTransport(SCRIPT["url"], headers=headers)
    said: dict[str, Any] = {"asked": asked, "results": [], "states": []}
    async with Client(transport, elicitation_handler=answer) as client:
        for call in SCRIPT.get("calls", ()):
            result = await client.call_tool(call["tool"], call["arguments"], raise_on_error=False)
            text = "\n".join(block.text for block in result.content if block.type == "text")
            said["results"].append({"text": text, "data": result.structured_content, "failed": result.is_error})
        if "cancel_at" in SCRIPT:
            task = await call_tool_task(client, SCRIPT["tool"], SCRIPT["arguments"])
            while not said["states"] or said["states"][-1] == "working":
                found = await task.status()
                said["states"].append(found.status)
                if found.status == "working" and (found.status_message or "").startswith(SCRIPT["cancel_at"]):
                    await task.cancel()
                await asyncio.sleep(0.05)
    sys.stdout.write(json.dumps(said))


asyncio.run(main())
