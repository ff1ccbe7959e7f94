/* Shows the app of a tool in the playground: a host of MCP Apps (2026-01-26) without a model and without calls. */
"use strict";
(() => {
    const LEAST = 40, MOST = 1200; // pixels of height, without the border
    const root = document.documentElement, hosts = new Map();
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    const REFUSED = new Set(["tools/call", "resources/read", "ui/message", "ui/update-model-context", "ui/download-file"]);

    const theme = () => {
        const chosen = root.dataset.theme;
        if (chosen === "light" || chosen === "dark") return chosen;
        return root.classList.contains("dark") || (chosen === "auto" && dark.matches) ? "dark" : "light";
    };

    const begin = (frame) => {
        const place = frame.closest("[data-mcp-app]"), {refused} = place.dataset;
        const given = JSON.parse(place.querySelector("script").textContent);
        let isReady = false;

        // The origin of a sandboxed page is opaque, so none can be named. Results go to the first page only.
        const post = (message) => frame.contentWindow.postMessage({jsonrpc: "2.0", ...message}, "*");
        const notify = (name, params) => post({method: `ui/notifications/${name}`, params});

        const list = (method, params) => {
            const line = document.createElement("li"), words = JSON.stringify(params ?? {});
            line.textContent = `${method} ${words.length > 500 ? `${words.slice(0, 500)}…` : words}`;
            place.querySelector("ol").append(line);
            place.querySelector("[data-mcp-requests]").hidden = false;
        };

        const asked = {
            ping: () => ({}),
            "ui/initialize": () => ({
                protocolVersion: "2026-01-26",
                hostInfo: {name: "Django admin", version: "1"},
                hostCapabilities: {openLinks: {}, logging: {}},
                hostContext: {
                    theme: theme(),
                    displayMode: "inline",
                    availableDisplayModes: ["inline"],
                    containerDimensions: {width: frame.clientWidth, maxHeight: MOST},
                    locale: root.lang || navigator.language,
                    timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
                    toolInfo: {tool: given.tool},
                    platform: "web",
                },
            }),
            "ui/open-link": ({url}) => {
                if (/^https?:/.test(url)) window.open(url, "_blank", "noopener,noreferrer");
                return {};
            },
            "ui/request-display-mode": () => ({mode: "inline"}),
        };

        const heard = {
            "ui/notifications/initialized": () => {
                if (isReady) return;
                isReady = true;
                if (given.arguments) notify("tool-input", {arguments: given.arguments}); // a task does not keep them
                notify("tool-result", given.result);
            },
            "ui/notifications/size-changed": ({height}) => {
                if (Number.isFinite(height)) frame.style.height = `${Math.min(Math.max(height, LEAST), MOST) + 2}px`;
            },
            "notifications/message": (params) => list("notifications/message", params),
        };

        const hear = ({id, method, params = {}}) => {
            if (id === undefined) {
                heard[method]?.(params);
            } else if (Object.hasOwn(asked, method)) {
                post({id, result: asked[method](params)});
            } else if (REFUSED.has(method)) {
                list(method, params);
                post({id, error: {code: -32000, message: refused}});
            } else {
                post({id, error: {code: -32601, message: `Unknown method ${method}`}});
            }
        };

        return {hear, adapt: () => isReady && notify("host-context-changed", {theme: theme()})};
    };

    window.addEventListener("message", ({source, data}) => {
        if (data?.jsonrpc !== "2.0" || typeof data.method !== "string") return;
        for (const frame of document.querySelectorAll("[data-mcp-app] iframe")) {
            if (frame.contentWindow !== source) continue;
            if (!hosts.has(frame)) hosts.set(frame, begin(frame));
            hosts.get(frame).hear(data);
        }
    });
    const adapt = () => hosts.forEach((host) => host.adapt());
    dark.addEventListener("change", adapt);
    new MutationObserver(adapt).observe(root, {attributeFilter: ["class", "data-theme"]});
})();
