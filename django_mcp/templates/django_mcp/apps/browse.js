/* Beside bridge.js: data-mcp-forward and data-mcp-back (return to what was shown before), data-mcp-keep (a result that
   takes the place of its form only), data-mcp-src (images that are resources of the server), data-mcp-download (its
   files), data-mcp-add and data-mcp-remove (rows of a form, from the template in front of the button). */
(() => {
  "use strict";
  const root = document.getElementById("mcp-app");
  const past = [];
  let left, added = 0, isStale = false;

  function settle() {
    root.querySelectorAll("[data-mcp-back]").forEach((each) => {
      each.hidden = past.length === 0;
    });
    root.querySelectorAll("[data-mcp-download]").forEach((each) => {
      each.disabled = !mcp.host.capabilities.downloadFile;
    });
    root.querySelectorAll("img[data-mcp-src]:not([src])").forEach(async (image) => {
      try {
        const { contents } = await mcp.readResource(image.dataset.mcpSrc);
        image.src = `data:${contents[0].mimeType};base64,${contents[0].blob}`;
      } catch {
        image.hidden = true; // the caption names it
      }
    });
  }

  document.addEventListener(
    "click",
    ({ target }) => {
      const element = target.closest(
        "[data-mcp-add], [data-mcp-remove], [data-mcp-tool], [data-mcp-back], [data-mcp-download]",
      );
      if (!element) return;
      if ("mcpBack" in element.dataset) {
        const { nodes, from } = past.pop();
        root.replaceChildren(...nodes);
        settle();
        from.focus();
        if (isStale) root.querySelector("#mcp-again")?.click();
        isStale = false;
      } else if ("mcpAdd" in element.dataset) {
        const blank = element.previousElementSibling;
        element.insertAdjacentHTML("beforebegin", blank.innerHTML.replaceAll("__prefix__", `new-${++added}`));
        const row = element.previousElementSibling;
        element.before(blank);
        row.querySelector("input, select, textarea")?.focus();
      } else if ("mcpRemove" in element.dataset) {
        element.closest("[data-mcp-in]").remove();
      } else if ("mcpDownload" in element.dataset) {
        const { mcpDownload: uri } = element.dataset;
        mcp.downloadFile([{ type: "resource_link", uri, name: element.textContent }]).catch(() => {});
      } else {
        left = { nodes: [...root.childNodes], from: element, at: document.activeElement.id };
      }
    },
    true,
  );

  document.addEventListener("mcp:result", ({ detail }) => {
    if (detail.isError || !left || root.contains(left.nodes[0])) return settle();
    const { mcpForward, mcpKeep } = left.from.dataset;
    const isForward = mcpForward != null;
    if (isForward) past.push(left);
    else if (mcpKeep != null) isStale = true;
    else past.length = 0;
    const same = !isForward && left.at && document.getElementById(left.at);
    (same || root.querySelector("h1, h2"))?.focus();
    left = undefined;
    settle();
  });
  mcp.ready.then(settle);
})();
