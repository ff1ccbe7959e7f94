/**
 * The client of @modelcontextprotocol/client with @modelcontextprotocol/ext-tasks, which speaks both kinds of tasks.
 *
 * In:  url, headers, mode ("legacy" or "auto"), tool, arguments, what elicitations are answered with (answer), and when
 *      to cancel (cancelAt: the beginning of a status message).
 * Out: the kind of the execution ("task" or "immediate"), the states it went through, what was asked, and the outcome.
 */

import { text } from "node:stream/consumers";

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";

const MODERN = "2026-07-28";
const CAPABILITIES = { elicitation: { form: {} } };
const INFO = { name: "ext-tasks", version: "1" };

/** What the library leaves to its host: sends a request of the newest version and reads its answer, JSON or events. */
function dispatcher(script) {
  let id = 0;
  return async (request, options = {}) => {
    const named = request.params.name ?? request.params.taskId;
    const headers = {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": MODERN,
      "mcp-method": request.method,
      "mcp-name": named,
      ...script.headers,
    };
    const body = JSON.stringify({ jsonrpc: "2.0", id: (id += 1), ...request });
    const response = await fetch(script.url, { method: "POST", headers, body, signal: options.signal });
    const said = await response.text();
    const lines = said.split("\n").filter((line) => line.startsWith("data: "));
    const { result, error } = JSON.parse(lines.length > 0 ? lines.at(-1).slice(6) : said);
    return error ? { kind: "error", error } : { kind: "result", result };
  };
}

const script = JSON.parse(await text(process.stdin));
const client = new Client(INFO, { capabilities: CAPABILITIES, versionNegotiation: { mode: script.mode } });
const transport = new StreamableHTTPClientTransport(new URL(script.url), { requestInit: { headers: script.headers } });
await client.connect(transport);

const asked = [];
const states = [];
const raw = {
  rawDispatch: dispatcher(script),
  v2RequestFraming: { protocolVersion: MODERN, clientInfo: INFO, clientCapabilities: CAPABILITIES },
};
const session = createTaskSessionFromClient(client, {
  endpointId: "agency",
  onInputRequest: async (request) => {
    asked.push(request.params.message);
    return { action: "accept", content: script.answer };
  },
  ...(client.getProtocolEra() === "modern" ? raw : {}),
});
const { tools } = await client.listTools();
const listed = tools.find((tool) => tool.name === script.tool);
const declaration = listed && { name: listed.name, inputSchema: listed.inputSchema, taskSupport: listed.execution?.taskSupport };
const execution = await session.callTool(script.tool, script.arguments, { declaration, task: { preference: "prefer" } });
const { outcome } = await execution.settle({
  onEvent: async (event) => {
    if (event.type !== "task") return;
    states.push([event.task.status, event.task.statusMessage ?? ""]);
    if (script.cancelAt && (event.task.statusMessage ?? "").startsWith(script.cancelAt)) await execution.cancel();
  },
});
const ended = { status: outcome.status, result: outcome.result ?? null, error: outcome.error?.message ?? null };
const about = { version: client.getNegotiatedProtocolVersion(), generation: session.capabilities };
await session.close();
await client.close();
console.log(JSON.stringify({ ...about, kind: execution.kind, states, asked, ...ended }));
