/* Copy buttons, and menus that close. The pages work without this script. */
"use strict";

document.addEventListener("DOMContentLoaded", () => {
    for (const text of document.querySelectorAll("[data-mcp-copy]")) {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "button mcp-copy";
        button.textContent = text.dataset.mcpCopy;
        button.addEventListener("click", async () => {
            if (await copy(text)) {
                button.textContent = text.dataset.mcpCopied;
            }
        });
        text.after(button);
    }
});

/* Browsers give the clipboard to pages of https and localhost alone; elsewhere the old command copies the selection. */
async function copy(text) {
    getSelection().selectAllChildren(text);
    try {
        await navigator.clipboard.writeText(text.textContent);
        return true;
    } catch {
        return document.execCommand("copy");
    }
}

const MENUS = "details[name=mcp-filter][open]";

document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector(MENUS);
    if (menu) {
        menu.open = false;
        menu.querySelector("summary").focus();
    }
});

document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll(MENUS)) {
        menu.open = menu.contains(event.target);
    }
});
