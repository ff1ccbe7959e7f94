/** The client of @modelcontextprotocol/client: `mode` is "legacy", "auto" or a version it insists on. */

import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { converse } from "./conversation.mjs";

const NAMED = new Set(["legacy", "auto"]);

function transportFor(script) {
  if (script.url) return new StreamableHTTPClientTransport(new URL(script.url));
  if (script.sse) return new SSEClientTransport(new URL(script.sse));
  return new StdioClientTransport({ ...script.command, stderr: "inherit" });
}

await converse((script, answer, listChanged) => {
  const mode = NAMED.has(script.mode) ? script.mode : { pin: script.mode };
  const client = new Client(
    { name: "client", version: "1" },
    { capabilities: script.capabilities ?? {}, versionNegotiation: { mode }, listChanged },
  );
  for (const method of Object.keys(script.answers ?? {})) client.setRequestHandler(method, answer(method));
  return {
    client,
    transport: transportFor(script),
    version: () => client.getNegotiatedProtocolVersion(),
    call: (method, params, options) => client[method](params, options),
  };
});
