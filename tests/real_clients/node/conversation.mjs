/**
 * A conversation that a test has written down: one JSON object comes on standard input, one goes to standard output.
 *
 * In:  how to connect (mode, url | sse | command), what the client can (capabilities), what it answers when it is
 *      asked (answers, by method: one for all questions, or a list in their order), which lists it wants to be told
 *      of when they change (listChanged), and the steps: {call, params} calls a method of the client, {list} walks all
 *      pages, {together} does steps at once, {hear, call} waits for a notification or for a list that changed, and
 *      makes the call that causes it.
 * Out: who answered, per step its {result} or {error} with the progress that was reported, and all that was heard.
 */

import { text } from "node:stream/consumers";

/** Milliseconds for one step. */
const PATIENCE = 30_000;

const MEMBERS = {
  listTools: "tools",
  listResources: "resources",
  listResourceTemplates: "resourceTemplates",
  listPrompts: "prompts",
};

/** What a library throws, as JSON. */
const told = (error) => ({ name: error.name, code: error.code, message: error.message, data: error.data });

/** All pages of a list, and how many there were. */
async function everyPage(client, method) {
  const entries = [];
  let pages = 0;
  let cursor;
  do {
    const page = await client[method](cursor === undefined ? {} : { cursor });
    entries.push(...page[MEMBERS[method]]);
    pages += 1;
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return { entries, pages };
}

/** Calls a method; with `cancelOnProgress` it is given up as soon as there is progress. */
async function call(speaker, step) {
  const progress = [];
  const abort = new AbortController();
  const options = {
    timeout: PATIENCE,
    signal: abort.signal,
    onprogress: (report) => {
      progress.push(report);
      if (step.cancelOnProgress) abort.abort("the user went away");
    },
  };
  try {
    return { result: (await speaker.call(step.call, step.params ?? {}, options)) ?? null, progress };
  } catch (error) {
    return { error: told(error), progress };
  }
}

/**
 * Waits for a notification of a method, or for a changed list by its name. What causes it is called again and again:
 * clients open the stream on which they hear of changes beside their first calls, and miss what is said before.
 */
async function hear(speaker, heard, step) {
  const deadline = Date.now() + PATIENCE;
  const found = () => [...heard.notifications, ...heard.changes].filter((each) => step.hear === (each.method ?? each.list));
  for (let round = 0; found().length === 0 && Date.now() < deadline; round += 1) {
    if (round % 50 === 0) await call(speaker, step);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return found().length > 0 ? { result: found() } : { error: { message: `${step.hear} was never heard` } };
}

async function take(speaker, heard, step) {
  if (step.together) return Promise.all(step.together.map((each) => take(speaker, heard, each)));
  if (step.hear) return hear(speaker, heard, step);
  if (!step.list) return call(speaker, step);
  try {
    return { result: await everyPage(speaker.client, step.list) };
  } catch (error) {
    return { error: told(error) };
  }
}

/** Answers the server's questions as the test has it, and remembers them. */
function answering(script, heard) {
  const left = structuredClone(script.answers ?? {});
  return (method) => async (request) => {
    heard.questions.push({ method, params: request.params });
    const answer = Array.isArray(left[method]) ? left[method].shift() : left[method];
    if (answer === undefined) throw new Error(`the test has no answer to ${method}`);
    return answer;
  };
}

/** Handlers for the lists the test wants to be told of. */
function changes(script, heard) {
  const handler = (list) => ({
    onChanged: (error, entries) =>
      heard.changes.push({ list, error: error?.message, names: entries?.map((entry) => entry.name) }),
  });
  return Object.fromEntries((script.listChanged ?? []).map((list) => [list, handler(list)]));
}

/**
 * Reads the script, connects with `open(script, answer, listChanged)`, which gives {client, transport, version, call},
 * and tells what happened.
 */
export async function converse(open) {
  const script = JSON.parse(await text(process.stdin));
  const heard = { notifications: [], questions: [], changes: [] };
  const speaker = await open(script, answering(script, heard), changes(script, heard));
  const { client, transport } = speaker;
  client.fallbackNotificationHandler = async (notification) => heard.notifications.push(notification);
  client.onerror = (error) => console.error(error);
  await client.connect(transport);
  const about = {
    server: client.getServerVersion(),
    capabilities: client.getServerCapabilities(),
    instructions: client.getInstructions(),
    version: speaker.version(),
    session: transport.sessionId ?? null,
  };
  const steps = [];
  for (const step of script.steps) steps.push(await take(speaker, heard, step));
  if (about.session) await transport.terminateSession();
  await client.close();
  console.log(JSON.stringify({ ...about, steps, ...heard }));
}
