/**
 * Calls tools at an endpoint that asks for a login; a person at a browser logs in.
 *
 * In:  one JSON object on standard input: the library ("sdk" or "client") and its mode, the endpoint's url, the port
 *      of the redirect URI, the url of the client's metadata document if it has one, what it kept from an earlier run
 *      (kept: {client, tokens}), the command of a browser, which gets an address as its last word and prints what it
 *      saw as JSON, and the calls: [{name, arguments}].
 * Out: one JSON object: the outcome of each call ({result} or {error}), what the browser saw each time (visits), and
 *      what is kept for a later run.
 */

import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";

/** How often a call is begun: the first time there is no token, the second time too little may be allowed. */
const ATTEMPTS = 3;

const script = JSON.parse(await text(process.stdin));
const redirectUri = `http://127.0.0.1:${script.port}/callback`;
const visits = [];
const kept = structuredClone(script.kept ?? {});

const library =
  script.library === "sdk"
    ? {
        ...(await import("@modelcontextprotocol/sdk/client/index.js")),
        ...(await import("@modelcontextprotocol/sdk/client/streamableHttp.js")),
        ...(await import("@modelcontextprotocol/sdk/client/auth.js")),
      }
    : await import("@modelcontextprotocol/client");

/** Listens for the answer while the browser goes through the pages; the answer's parameters. */
async function login(address) {
  const server = createServer();
  server.listen(script.port, "127.0.0.1");
  const answered = new Promise((resolve) => {
    server.on("request", (request, response) => {
      response.end("You may close this window.");
      if (request.url.startsWith("/callback")) resolve(new URL(request.url, redirectUri).searchParams);
    });
  });
  await once(server, "listening");
  try {
    const [program, ...words] = script.browser;
    const { stdout } = await promisify(execFile)(program, [...words, String(address)]);
    visits.push(JSON.parse(stdout));
    return await answered;
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

/** Remembers in `kept`, and hands the address on to which a person has to go. */
class Provider {
  redirectUrl = redirectUri;
  clientMetadataUrl = script.document;
  clientMetadata = {
    client_name: "JavaScript client",
    redirect_uris: [redirectUri],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  };
  state = () => "the-state";
  clientInformation = () => kept.client;
  saveClientInformation = (client) => void (kept.client = client);
  tokens = () => kept.tokens;
  saveTokens = (tokens) => void (kept.tokens = tokens);
  codeVerifier = () => this.verifier;
  saveCodeVerifier = (verifier) => void (this.verifier = verifier);
  discoveryState = () => this.discovered;
  saveDiscoveryState = (discovered) => void (this.discovered = discovered);
  redirectToAuthorization = (address) => void (this.address = address);
}

async function call(provider, step) {
  const mode = script.mode && { versionNegotiation: { mode: script.mode } };
  const client = new library.Client({ name: "client", version: "1" }, { capabilities: {}, ...mode });
  const transport = new library.StreamableHTTPClientTransport(new URL(script.url), { authProvider: provider });
  try {
    await client.connect(transport);
    return { result: await client.callTool(step) };
  } catch (error) {
    if (!(error instanceof library.UnauthorizedError) || !provider.address) {
      return { error: { name: error.name, message: error.message } };
    }
    const answer = await login(provider.address);
    provider.address = undefined;
    if (answer.get("state") !== provider.state()) throw new Error(`the answer has the state ${answer.get("state")}`);
    await transport.finishAuth(script.library === "sdk" ? answer.get("code") : answer);
    return undefined;
  } finally {
    await client.close();
  }
}

const provider = new Provider();
const outcomes = [];
for (const step of script.calls) {
  let outcome;
  for (let attempt = 0; attempt < ATTEMPTS && !outcome; attempt += 1) outcome = await call(provider, step);
  outcomes.push(outcome ?? { error: { message: "it was sent to log in again and again" } });
}
console.log(JSON.stringify({ outcomes, visits, kept }));
