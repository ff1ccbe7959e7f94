/**
 * The experimental tasks of @modelcontextprotocol/sdk, which are those of 2025-11-25.
 *
 * In:  url, headers, tool, arguments, what elicitations are answered with (answer), and whether to cancel the task once
 *      there is one (cancel).
 * Out: what the server declared of tasks, the kinds of what came, the states it went through, what was asked, the
 *      result or the error, and the tasks that are listed afterwards.
 */

import { text } from "node:stream/consumers";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const script = JSON.parse(await text(process.stdin));
const said = { kinds: [], states: [], asked: [], result: null, error: null };
const client = new Client({ name: "sdk", version: "1" }, { capabilities: { elicitation: { form: {} } } });
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
  said.asked.push([params.message, params._meta]);
  return { action: "accept", content: script.answer };
});
await client.connect(
  new StreamableHTTPClientTransport(new URL(script.url), { requestInit: { headers: script.headers } }),
);
said.declared = client.getServerCapabilities().tasks;
await client.listTools();

const { tasks } = client.experimental;
for await (const each of tasks.callToolStream({ name: script.tool, arguments: script.arguments })) {
  said.kinds.push(each.type);
  if (each.task) said.states.push(each.task.status);
  if (each.type === "taskCreated") said.task = each.task.taskId;
  if (each.type === "taskCreated" && script.cancel) said.cancelled = (await tasks.cancelTask(each.task.taskId)).status;
  if (each.type === "result") said.result = each.result;
  if (each.type === "error") said.error = each.error.message;
}
said.listed = (await tasks.listTasks()).tasks.map((task) => task.taskId);
await client.close();
console.log(JSON.stringify(said));
