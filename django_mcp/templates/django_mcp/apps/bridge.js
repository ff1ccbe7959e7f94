{% load i18n %}{% translate "This client has not answered. It may not pass calls on to the site: ask for it in the conversation." as silent %}{% translate "Put %s in quotation marks: it has more digits than can be sent as a number." as long_number %}/* MCP Apps (2026-01-26): window.mcp, events "mcp:*" of document, and data-mcp-* attributes. */
(() => {
  "use strict";
  const root = document.documentElement;
  const waiting = new Map();
  const SILENT_MS = 10_000; // a host that does not declare that it passes calls on may do so
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
  // As text if a number of JavaScript would be another one; servers take both.
  const exact = (text) =>
    (text.replace(/e.*|\D/gi, "").length < 16 && isFinite(text)) || String(+text) === text ? +text : text;
  const NUMBERS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/gi;
  const parse = (text, quote = (number) => `"${number}"`) =>
    JSON.parse(text.replace(NUMBERS, (found) => (found[0] === '"' || typeof exact(found) === "number" ? found : quote(found))));
  const refuse = (number) => {
    throw new Error("{{ long_number|escapejs }}".replace("%s", number));
  };
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
    if (frameWidth) measure();
  }

  async function encode(file) {
    const bytes = [...new Uint8Array(await file.arrayBuffer())];
    return { filename: file.name, content: btoa(bytes.map((each) => String.fromCharCode(each)).join("")) };
  }

  async function valuesOf(form, submitter) {
    const all = {};
    const parts = new Map();
    // Fields in data-mcp-in="filters" make an object of that name, in "lines[]" an item of a list.
    const into = (part) => {
      const [, name, item] = part.dataset.mcpIn.match(/(.*?)(\[\])?$/);
      if (!parts.has(part)) parts.set(part, item ? {} : (all[name] ??= {}));
      if (item && !all[name]?.includes(parts.get(part))) (all[name] ??= []).push(parts.get(part));
      return parts.get(part);
    };
    for (const field of form.elements) {
      const part = field.closest("[data-mcp-in]");
      const values = part ? into(part) : all;
      const { name, type, value, checked } = field;
      const { mcpJson, mcpList, mcpEmpty } = field.dataset;
      const read = (text) =>
        text === "" ? null
        : mcpJson != null ? parse(text, type === "textarea" ? refuse : undefined) // what a user writes stays as written
        : type === "number" ? exact(text)
        : text;
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
        if (value || mcpEmpty) values[name] = value ? read(value) : parse(mcpEmpty);
      }
    }
    return all;
  }

  async function act(element, submitter) {
    const { mcpTool, mcpTarget, mcpArguments } = element.dataset;
    const place = mcpTarget ? document.querySelector(mcpTarget) : element.closest("[data-mcp-view], #mcp-app");
    if (element.ariaBusy) return;
    element.ariaBusy = "true";
    const giveUp = () => {
      element.ariaBusy = null;
      note(place ?? document.body, "{{ silent|escapejs }}", "error");
    };
    const timer = mcp.host.capabilities.serverTools ? 0 : setTimeout(giveUp, SILENT_MS);
    try {
      const args = parse(mcpArguments || "{}");
      if (element.elements) Object.assign(args, await valuesOf(element, submitter));
      const result = await mcp.callTool(mcpTool, args);
      take(result, place);
      if ("mcpTell" in element.dataset && !result.isError) await mcp.updateContext(textOf(result)).catch(() => {});
    } catch (error) {
      note(place ?? document.body, error.message, "error");
    } finally {
      clearTimeout(timer);
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

  let known = {}, frameWidth;
  function measure({ type } = {}) {
    const { body } = document;
    const { height: before } = root.style;
    root.style.setProperty("height", "max-content", "important"); // in place of 100% of the frame
    const { width, height, top } = root.getBoundingClientRect();
    const size = {
      width: Math.ceil(width),
      height: Math.ceil(Math.max(height, body.getBoundingClientRect().top - top + body.scrollHeight)),
    };
    root.style.height = before;
    // A height in vh follows the frame, which follows the page: without an end if there is a padding.
    const isOfFrame = type === "resize" && innerWidth === frameWidth && size.height > known.height;
    const isKnown = size.width === known.width && size.height === known.height;
    [known, frameWidth] = [size, innerWidth];
    if (!isKnown && !isOfFrame) notify("ui/notifications/size-changed", size);
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
    addEventListener("resize", measure);
    const observer = new ResizeObserver(measure);
    [root, document.body, ...document.body.children].forEach((each) => observer.observe(each));
    return mcp.host;
  });
})();
