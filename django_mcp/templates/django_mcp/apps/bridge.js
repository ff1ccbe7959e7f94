/* MCP Apps (2026-01-26): window.mcp, events "mcp:*" of document, and data-mcp-* attributes. */
(() => {
  "use strict";
  const root = document.documentElement;
  const waiting = new Map();
  let last = 0;

  const post = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const notify = (method, params = {}) => post({ method, params });
  const request = (method, params = {}) =>
    new Promise((resolve, reject) => {
      waiting.set(++last, (error, result) => (error ? reject(Object.assign(new Error(), error)) : resolve(result)));
      post({ id: last, method, params });
    });
  const emit = (name, detail) => document.dispatchEvent(new CustomEvent(`mcp:${name}`, { detail }));
  const make = (tag, fields) => Object.assign(document.createElement(tag), fields);
  const blocks = (text) => [{ type: "text", text }];
  const textOf = ({ content = [] }) => content.flatMap(({ text }) => text ?? []).join("\n\n");

  const mcp = {
    host: { info: {}, capabilities: {}, context: {} },
    request,
    notify,
    show,
    callTool: (name, args = {}) => request("tools/call", { name, arguments: args }),
    readResource: (uri) => request("resources/read", { uri }),
    sendMessage: (text) => request("ui/message", { role: "user", content: blocks(text) }),
    updateContext: (text, structuredContent) =>
      request("ui/update-model-context", { content: blocks(text), structuredContent }),
    downloadFile: (contents) => request("ui/download-file", { contents }),
    openLink: (url) => request("ui/open-link", { url }),
    setDisplayMode: (mode) => request("ui/request-display-mode", { mode }),
    log: (level, data) => notify("notifications/message", { level, data }),
    close: () => notify("ui/notifications/request-teardown"),
  };
  window.mcp = mcp;

  function note(place, text, kind) {
    place.querySelector(":scope > .mcp-note")?.remove();
    const role = kind === "error" ? "alert" : "status";
    place.prepend(make("p", { className: `mcp-note mcp-${kind}`, role, textContent: text }));
    place.firstChild.scrollIntoView({ block: "nearest" });
  }

  function show(result, place = document.getElementById("mcp-app")) {
    const html = result._meta?.["django-mcp/html"];
    if (!place) return; // its scripts show results
    if (html != null) {
      place.innerHTML = html;
      place.querySelector("[autofocus], [aria-invalid=true]")?.focus();
    } else if (result.isError || place.textContent.trim()) {
      note(place, textOf(result), result.isError ? "error" : "done");
    } else {
      place.append(make("pre", { textContent: textOf(result) }));
    }
  }

  function take(result, place) {
    mcp.result = result;
    show(result, place);
    emit("result", result);
  }

  async function encode(file) {
    const bytes = [...new Uint8Array(await file.arrayBuffer())];
    return { filename: file.name, content: btoa(bytes.map((each) => String.fromCharCode(each)).join("")) };
  }

  async function valuesOf(form, submitter) {
    const values = {};
    for (const field of form.elements) {
      const { name, type, value, checked } = field;
      const { mcpJson, mcpList, mcpEmpty } = field.dataset;
      const read = (text) =>
        text === "" ? null : mcpJson != null ? JSON.parse(text) : type === "number" ? Number(text) : text;
      if (!name || field.disabled || /button|reset|image/.test(type)) continue;
      if (type === "file") {
        if (field.files[0]) values[name] = await encode(field.files[0]);
      } else if (type === "select-multiple") {
        values[name] = [...field.selectedOptions].map((each) => read(each.value));
      } else if (mcpList != null) {
        values[name] ??= [];
        if (type !== "checkbox" || checked) values[name].push(...(mcpList ? (value.match(/[^,]+/g) ?? []) : [value]).map(read));
      } else if (type === "checkbox") {
        values[name] = checked;
      } else if (type === "radio" ? checked : type !== "submit" || field === submitter) {
        if (value || mcpEmpty) values[name] = value ? read(value) : JSON.parse(mcpEmpty);
      }
    }
    return values;
  }

  async function act(element, submitter) {
    const { mcpTool, mcpTarget, mcpArguments } = element.dataset;
    const place = mcpTarget ? document.querySelector(mcpTarget) : element.closest("[data-mcp-view], #mcp-app");
    if (element.ariaBusy) return;
    element.ariaBusy = "true";
    try {
      const args = JSON.parse(mcpArguments || "{}");
      if (element.elements) Object.assign(args, await valuesOf(element, submitter));
      const result = await mcp.callTool(mcpTool, args);
      take(result, place);
      if ("mcpTell" in element.dataset && !result.isError) await mcp.updateContext(textOf(result)).catch(() => {});
    } catch (error) {
      note(place ?? document.body, error.message, "error");
    } finally {
      element.ariaBusy = null;
    }
  }

  document.addEventListener("submit", (event) => {
    event.preventDefault(); // the frame posts nothing
    if (event.target.dataset.mcpTool) act(event.target, event.submitter);
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button, input");
    const element = event.target.closest("[data-mcp-tool], [data-mcp-message], [data-mcp-display], a[href]");
    if (!element) return;
    const { mcpTool, mcpMessage, mcpDisplay } = element.dataset;
    if (button?.type === "submit" && button.form === element) { // "submit" may be blocked
      if (button.formNoValidate || element.noValidate || element.reportValidity()) act(element, button);
    } else if (element.elements) return;
    else if (mcpTool) act(element);
    else if (mcpMessage) mcp.sendMessage(mcpMessage);
    else if (mcpDisplay) mcp.setDisplayMode(mcpDisplay);
    else if (/^https?:/.test(element.href) && mcp.host.capabilities.openLinks) mcp.openLink(element.href);
    else return;
    event.preventDefault();
  });

  const fonts = document.head.appendChild(make("style"));
  function adapt(changes) {
    const { theme, styles, availableDisplayModes = [] } = Object.assign(mcp.host.context, changes);
    if (theme) root.style.colorScheme = root.dataset.theme = theme;
    for (const [name, value] of Object.entries(styles?.variables ?? {})) if (value) root.style.setProperty(name, value);
    if (styles?.css?.fonts) fonts.textContent = styles.css.fonts;
    document.querySelectorAll("[data-mcp-display]").forEach((each) => {
      each.hidden = !availableDisplayModes.includes(each.dataset.mcpDisplay);
    });
    emit("context", mcp.host.context);
  }

  function measure() {
    const { width, height } = root.getBoundingClientRect();
    notify("ui/notifications/size-changed", { width: Math.ceil(width), height: Math.ceil(height) });
  }

  const heard = {
    "tool-input": (params) => emit("input", (mcp.arguments = params.arguments)),
    "tool-cancelled": (params) => emit("cancelled", params),
    "host-context-changed": adapt,
    "tool-result": take,
  };
  const asked = { ping: () => {}, "ui/resource-teardown": (params) => emit("teardown", params) };

  addEventListener("message", (event) => {
    const { jsonrpc, id, method, params = {}, result, error } = event.data ?? {};
    if (event.source !== parent || jsonrpc !== "2.0") return;
    if (method === undefined) {
      waiting.get(id)?.(error, result);
      waiting.delete(id);
    } else if (id === undefined) {
      heard[method.replace("ui/notifications/", "")]?.(params);
    } else if (method in asked) {
      asked[method](params);
      post({ id, result: {} });
    } else {
      post({ id, error: { code: -32601, message: "Method not found" } });
    }
  });

  mcp.ready = request("ui/initialize", {
    protocolVersion: "2026-01-26",
    appInfo: { name: document.title || "app", version: "1" },
    appCapabilities: { availableDisplayModes: (root.dataset.mcpModes || "inline fullscreen").split(" ") },
  }).then(({ hostInfo, hostCapabilities = {}, hostContext }) => {
    mcp.host = { info: hostInfo, capabilities: hostCapabilities, context: {} };
    adapt(hostContext);
    notify("ui/notifications/initialized");
    new ResizeObserver(measure).observe(root);
    return mcp.host;
  });
})();
