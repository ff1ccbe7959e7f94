/** The client of @modelcontextprotocol/sdk, which speaks the versions with a handshake. */

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CallToolResultSchema,
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";

import { converse } from "./conversation.mjs";

const QUESTIONS = {
  "elicitation/create": ElicitRequestSchema,
  "sampling/createMessage": CreateMessageRequestSchema,
  "roots/list": ListRootsRequestSchema,
};

function transportFor(script) {
  if (script.url) return new StreamableHTTPClientTransport(new URL(script.url));
  if (script.sse) return new SSEClientTransport(new URL(script.sse));
  return new StdioClientTransport({ ...script.command, stderr: "inherit" });
}

await converse((script, answer, listChanged) => {
  const client = new Client({ name: "sdk", version: "1" }, { capabilities: script.capabilities ?? {}, listChanged });
  for (const method of Object.keys(script.answers ?? {})) client.setRequestHandler(QUESTIONS[method], answer(method));
  const transport = transportFor(script);
  let version;
  transport.setProtocolVersion = ((before) => (agreed) => {
    version = agreed;
    before?.call(transport, agreed);
  })(transport.setProtocolVersion);
  return {
    client,
    transport,
    version: () => version,
    call: (method, params, options) => {
      if (method === "callTool") return client.callTool(params, CallToolResultSchema, options);
      return client[method](params, options);
    },
  };
});
