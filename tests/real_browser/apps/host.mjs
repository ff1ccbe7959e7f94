/**
 * A host of MCP Apps in a page: `window.host`, which the tests drive. host.py explains how it is served.
 *
 * Tools are called and resources read by a client of @modelcontextprotocol/client that declares the extension. Its page
 * asks the endpoint from another origin, as hosts do. Messages with an app go through the extension's own AppBridge.
 */

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import {
  AppBridge,
  PostMessageTransport,
  RESOURCE_MIME_TYPE,
  getToolUiResourceUri,
  isToolVisibilityModelOnly,
} from "@modelcontextprotocol/ext-apps/app-bridge";
import { parse } from "parse5";

const INFO = { name: "test-host", version: "1" };
const EXTENSIONS = { "io.modelcontextprotocol/ui": { mimeTypes: [RESOURCE_MIME_TYPE] } };
const CAPABILITIES = {
  openLinks: {},
  downloadFile: {},
  serverTools: {},
  serverResources: {},
  logging: {},
  updateModelContext: { text: {}, structuredContent: {} },
  message: { text: {} },
};
const VARIABLES = {
  "--color-background-primary": "light-dark(#ffffff, #1f1e1d)",
  "--color-background-secondary": "light-dark(#f5f4ed, #30302e)",
  "--color-background-tertiary": "light-dark(#e8e6dc, #3d3d3a)",
  "--color-background-danger": "light-dark(#fbe9e7, #4a1f1c)",
  "--color-background-success": "light-dark(#e8f2e4, #1f3a1c)",
  "--color-background-warning": "light-dark(#fbf1da, #453512)",
  "--color-text-primary": "light-dark(#141413, #faf9f5)",
  "--color-text-secondary": "light-dark(#5e5d59, #c2c0b6)",
  "--color-text-tertiary": "light-dark(#6f6e69, #a5a399)",
  "--color-text-inverse": "light-dark(#ffffff, #141413)",
  "--color-text-info": "light-dark(#1f5fa8, #8ec2ff)",
  "--color-text-danger": "light-dark(#a3211b, #ff9d96)",
  "--color-text-success": "light-dark(#2c6415, #9fd58a)",
  "--color-text-warning": "light-dark(#785302, #e8c06b)",
  "--color-border-primary": "light-dark(#8a887f, #8a887f)",
  "--color-border-secondary": "light-dark(#c9c7bd, #55534e)",
  "--color-ring-primary": "light-dark(#1f5fa8, #8ec2ff)",
  "--font-sans": "system-ui, sans-serif",
  "--font-mono": "ui-monospace, monospace",
  "--font-text-sm-size": "14px",
  "--font-text-md-size": "16px",
  "--font-heading-sm-size": "20px",
  "--border-radius-sm": "6px",
  "--border-radius-md": "8px",
  "--border-width-regular": "1px",
};

/** What went to and fro: `{to: "app" | "host", message}`, oldest first. */
const log = [];
let client;
let tools = [];
let bridge;
let iframe;
let ready;
let deliver;
let context;

class Recorded extends PostMessageTransport {
  send(message, options) {
    log.push({ to: "app", message: structuredClone(message) });
    return super.send(message, options);
  }
}

/** All pages of a list. */
async function all(method, name) {
  const found = [];
  for (let cursor; ; ) {
    const page = await client[method](cursor ? { cursor } : {});
    found.push(...page[name]);
    if (!(cursor = page.nextCursor)) return found;
  }
}

/** Connect to an endpoint. `extension: false` makes a client that knows no apps, `mode` is "legacy" or "auto". */
async function connect(url, { headers = {}, mode = "auto", extension = true } = {}) {
  client = new Client(INFO, {
    capabilities: extension ? { extensions: EXTENSIONS } : {},
    versionNegotiation: { mode },
  });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  tools = await all("listTools", "tools");
  return tools;
}

/** An app's HTML and `_meta.ui`: of the contents, else of the list (Metadata Location). */
async function read(uri) {
  const { contents } = await client.readResource({ uri });
  if (contents.length !== 1) throw new Error(`${uri} has ${contents.length} contents.`);
  const [found] = contents;
  if (found.mimeType !== RESOURCE_MIME_TYPE) throw new Error(`${uri} is ${found.mimeType}.`);
  const html = found.text ?? new TextDecoder().decode(Uint8Array.from(atob(found.blob), (c) => c.charCodeAt(0)));
  const listed = (await all("listResources", "resources")).find((each) => each.uri === uri);
  return { html, meta: found._meta?.ui ?? listed?._meta?.ui ?? {} };
}

/** A tool call of an app. The tool must be one of the endpoint's that is visible to apps (Visibility). */
function callForApp(params) {
  const tool = tools.find((each) => each.name === params.name);
  if (!tool || isToolVisibilityModelOnly(tool)) throw new Error(`Apps may not call ${params.name}.`);
  return client.callTool(params);
}

window.addEventListener("message", ({ source, data }) => {
  if (source !== iframe?.contentWindow) return;
  if (data?.method === "ui/notifications/sandbox-proxy-ready") ready();
  else log.push({ to: "host", message: data });
});

/** Show the sandbox on its own origin; return when it is ready for the app's HTML. */
function showSandbox(origin, csp) {
  const url = new URL("/sandbox", origin);
  url.searchParams.set("csp", JSON.stringify(csp ?? {}));
  iframe = document.createElement("iframe");
  iframe.setAttribute("sandbox", "allow-scripts allow-same-origin allow-forms");
  iframe.src = url.href;
  document.getElementById("app").replaceChildren(iframe);
  return new Promise((resolve) => {
    ready = resolve;
  });
}

/**
 * Call a tool and show its app; `arguments` and the result go to the app when it has initialized.
 *
 * Options: theme, width and maxHeight in pixels, styles (false for a host without variables), sandbox (of the app's frame),
 * and further members of the host's context.
 * Without `wait`, the app need not initialize, and gets these from `deliver()`.
 */
async function open(origin, name, given = {}, options = {}) {
  const { theme = "light", width = 640, maxHeight = 2000, styles = true, sandbox, wait = true, ...further } = options;
  const tool = tools.find((each) => each.name === name);
  if (!tool) throw new Error(`There is no tool ${name}.`);
  const result = await client.callTool({ name, arguments: given });
  const uri = getToolUiResourceUri(tool);
  if (!uri) throw new Error(`${name} has no app.`);
  const { html, meta } = await read(uri);

  await bridge?.close();
  log.length = 0;
  document.getElementById("app").style.width = `${width}px`;
  document.documentElement.style.colorScheme = theme;
  await showSandbox(origin, meta.csp);
  context = {
    toolInfo: { tool },
    theme,
    styles: styles ? { variables: VARIABLES } : undefined,
    displayMode: "inline",
    availableDisplayModes: ["inline"],
    containerDimensions: { width, maxHeight },
    locale: "en-US",
    timeZone: "UTC",
    platform: "web",
    ...further,
  };
  // Without a client: with one, the bridge would pass on calls of any tool.
  bridge = new AppBridge(null, INFO, CAPABILITIES, { hostContext: context });
  bridge.oncalltool = callForApp;
  bridge.onreadresource = (params) => client.readResource(params);
  bridge.onlistresources = (params) => client.listResources(params);
  bridge.onmessage = bridge.onopenlink = bridge.ondownloadfile = bridge.onupdatemodelcontext = async () => ({});
  bridge.onrequestdisplaymode = async () => ({ mode: "inline" });
  bridge.onloggingmessage = () => {};
  bridge.onsizechange = ({ height }) => {
    if (height !== undefined) iframe.style.height = `${Math.min(height, maxHeight)}px`;
  };
  const initialized = new Promise((resolve) => {
    bridge.oninitialized = resolve;
  });
  deliver = async () => {
    await initialized;
    await bridge.sendToolInput({ arguments: given });
    await bridge.sendToolResult(result);
  };
  await bridge.connect(new Recorded(iframe.contentWindow, iframe.contentWindow));
  await bridge.sendSandboxResourceReady({ html, csp: meta.csp, sandbox });
  if (wait) await deliver();
  return result;
}

/** Change the host's context, such as `{theme: "dark"}`. */
function change(changed) {
  context = { ...context, ...changed };
  document.documentElement.style.colorScheme = context.theme;
  bridge.setHostContext(context);
}

/** Send a request to the app. Return its answer, or fail after *timeout* milliseconds. */
function ask(method, timeout) {
  const anything = { parse: (value) => value, "~standard": { version: 1, vendor: "host", validate: (value) => ({ value }) } };
  return bridge.request({ method, params: {} }, anything, { timeout });
}

/** Ask the app to end, and remove it when it has answered. */
async function teardown(timeout) {
  const answer = await bridge.teardownResource({}, { timeout });
  iframe.remove();
  return answer;
}

/** Errors of the HTML specification in a document, such as "missing-doctype". */
function parseErrors(html) {
  const found = [];
  parse(html, { onParseError: ({ code, startLine }) => found.push(`${code} in line ${startLine}`) });
  return found;
}

window.host = {
  log,
  connect,
  open,
  deliver: () => deliver(),
  change,
  ask,
  teardown,
  parseErrors,
  call: (name, given = {}) => client.callTool({ name, arguments: given }),
  read: (uri) => client.readResource({ uri }),
  resources: () => all("listResources", "resources"),
};
