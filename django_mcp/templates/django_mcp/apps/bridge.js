/* MCP Apps (2026-01-26): window.mcp, events "mcp:…" of document, and data-mcp-… attributes. */
(() => {
  "use strict";
  const HTML = "django-mcp/html";
  const root = document.documentElement;
  const waiting = new Map();
  let last = 0;

  const post = (message) => window.parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const notify = (method, params = {}) => post({ method, params });
  const request = (method, params = {}) =>
    new Promise((resolve, reject) => {
      last += 1;
      waiting.set(last, { resolve, reject });
      post({ id: last, method, params });
    });
  const emit = (name, detail) => document.dispatchEvent(new CustomEvent(`mcp:${name}`, { detail }));
  const textOf = ({ content = [] }) => content.flatMap(({ text }) => text ?? []).join("\n\n");

  const mcp = {
    host: { info: {}, capabilities: {}, context: {} },
    request,
    notify,
    show,
    callTool: (name, args = {}) => request("tools/call", { name, arguments: args }),
    readResource: (uri) => request("resources/read", { uri }),
    sendMessage: (text) => request("ui/message", { role: "user", content: [{ type: "text", text }] }),
    updateContext: (text, structuredContent) =>
      request("ui/update-model-context", { content: [{ type: "text", text }], structuredContent }),
    downloadFile: (contents) => request("ui/download-file", { contents }),
    openLink: (url) => request("ui/open-link", { url }),
    setDisplayMode: (mode) => request("ui/request-display-mode", { mode }),
    log: (level, data) => notify("notifications/message", { level, data }),
    close: () => notify("ui/notifications/request-teardown"),
  };
  window.mcp = mcp;

  function note(place, text, kind) {
    const old = place.querySelector(":scope > .mcp-note");
    const made = document.createElement("p");
    made.className = `mcp-note mcp-${kind}`;
    made.role = kind === "error" ? "alert" : "status";
    made.textContent = text;
    old?.remove();
    place.prepend(made);
  }

  function show(result, place = document.getElementById("mcp-app")) {
    const html = result._meta?.[HTML];
    if (!place) return; // a page that shows results itself
    if (html !== undefined) {
      place.innerHTML = html;
      place.querySelector("[autofocus], [aria-invalid=true]")?.focus();
    } else if (result.isError || place.textContent.trim()) {
      note(place, textOf(result), result.isError ? "error" : "done");
    } else {
      place.append(document.createElement("pre"));
      place.lastChild.textContent = textOf(result);
    }
  }

  function valuesOf(form, submitter) {
    const values = {};
    for (const field of form.elements) {
      const { name, type, dataset } = field;
      const read = (value) => ("mcpJson" in dataset ? JSON.parse(value) : type === "number" ? Number(value) : value);
      if (!name || field.disabled || ["button", "reset", "image", "file"].includes(type)) continue;
      if (type === "checkbox" && "mcpList" in dataset) {
        values[name] ??= [];
        if (field.checked) values[name].push(read(field.value));
      } else if (type === "checkbox") {
        values[name] = field.checked;
      } else if (type === "select-multiple") {
        values[name] = [...field.selectedOptions].map((each) => read(each.value));
      } else if (type === "radio" ? field.checked : type === "submit" ? field === submitter : true) {
        if (field.value !== "") values[name] = read(field.value);
      }
    }
    return values;
  }

  async function act(element, submitter) {
    const { mcpTool, mcpTarget, mcpArguments } = element.dataset;
    const place = mcpTarget ? document.querySelector(mcpTarget) : element.closest("[data-mcp-view], #mcp-app");
    const own = JSON.parse(mcpArguments || "{}");
    const args = element instanceof HTMLFormElement ? { ...own, ...valuesOf(element, submitter) } : own;
    if (element.getAttribute("aria-busy") === "true") return;
    element.setAttribute("aria-busy", "true");
    try {
      const result = await mcp.callTool(mcpTool, args);
      mcp.result = result;
      show(result, place);
      emit("result", result);
      if ("mcpTell" in element.dataset && !result.isError) await mcp.updateContext(textOf(result)).catch(() => {});
    } catch (error) {
      note(place ?? document.body, error.message, "error");
    } finally {
      element.removeAttribute("aria-busy");
    }
  }

  document.addEventListener("submit", (event) => {
    event.preventDefault(); // a sandboxed page cannot post to its site
    if (event.target.dataset.mcpTool) act(event.target, event.submitter);
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button, input");
    const element = event.target.closest("[data-mcp-tool], [data-mcp-message], [data-mcp-display], a[href]");
    if (!element) return;
    const { mcpTool, mcpMessage, mcpDisplay } = element.dataset;
    if (button?.type === "submit" && button.form === element) {
      if (element.reportValidity()) act(element, button); // some sandboxes allow no "submit"
    } else if (element instanceof HTMLFormElement) return;
    else if (mcpTool) act(element);
    else if (mcpMessage) mcp.sendMessage(mcpMessage);
    else if (mcpDisplay) mcp.setDisplayMode(mcpDisplay);
    else if (/^https?:/.test(element.href) && mcp.host.capabilities.openLinks) mcp.openLink(element.href);
    else return;
    event.preventDefault();
  });

  function adapt(changes) {
    const { theme, styles } = Object.assign(mcp.host.context, changes);
    if (theme) root.style.colorScheme = root.dataset.theme = theme;
    for (const [name, value] of Object.entries(styles?.variables ?? {})) if (value) root.style.setProperty(name, value);
    if (styles?.css?.fonts && !document.getElementById("mcp-fonts")) {
      const fonts = document.createElement("style");
      fonts.id = "mcp-fonts";
      fonts.textContent = styles.css.fonts;
      document.head.append(fonts);
    }
    const modes = mcp.host.context.availableDisplayModes ?? [];
    document.querySelectorAll("[data-mcp-display]").forEach((each) => {
      each.hidden = !modes.includes(each.dataset.mcpDisplay);
    });
    emit("context", mcp.host.context);
  }

  let size = "";
  function measure() {
    const { width, height } = root.getBoundingClientRect();
    const now = { width: Math.ceil(width), height: Math.ceil(height) };
    if (size !== (size = JSON.stringify(now))) notify("ui/notifications/size-changed", now);
  }

  const heard = {
    "tool-input": (params) => emit("input", (mcp.arguments = params.arguments)),
    "tool-cancelled": (params) => emit("cancelled", params),
    "host-context-changed": adapt,
    "tool-result": (result) => {
      mcp.result = result;
      show(result);
      emit("result", result);
    },
  };
  const asked = { ping: () => {}, "ui/resource-teardown": (params) => emit("teardown", params) };

  window.addEventListener("message", (event) => {
    const { jsonrpc, id, method, params = {}, result, error } = event.data ?? {};
    if (event.source !== window.parent || jsonrpc !== "2.0") return;
    if (method === undefined) {
      const { resolve, reject } = waiting.get(id) ?? {};
      waiting.delete(id);
      if (error) reject?.(Object.assign(new Error(error.message), { code: error.code, data: error.data }));
      else resolve?.(result);
    } else if (id === undefined) {
      heard[method.replace("ui/notifications/", "")]?.(params);
    } else if (method in asked) {
      asked[method](params);
      post({ id, result: {} });
    } else {
      post({ id, error: { code: -32601, message: `Unknown method ${method}` } });
    }
  });

  mcp.ready = request("ui/initialize", {
    protocolVersion: "2026-01-26",
    appInfo: { name: document.title || "app", version: "1" },
    appCapabilities: { availableDisplayModes: (root.dataset.mcpModes || "inline fullscreen").split(" ") },
  }).then((answer) => {
    mcp.host = { info: answer.hostInfo, capabilities: answer.hostCapabilities ?? {}, context: {} };
    adapt(answer.hostContext ?? {});
    notify("ui/notifications/initialized");
    new ResizeObserver(measure).observe(root);
    measure();
    return mcp.host;
  });
})();
