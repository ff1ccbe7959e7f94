/* Keeps the page of approvals up to date. Without it the page works, and is reloaded by hand.
 *
 * Every other second it asks for the cards of calls that wait; where nothing changed, the answer is empty. Cards that
 * are there stay the elements they are, so that nothing is lost of what somebody fills in. */
"use strict";
(() => {
    const EVERY = 2000, SLOWEST = 20000;
    const SETTLE = 600; // milliseconds after a change in which clicks do not count: what was clicked may have moved
    const MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR;

    const start = (section) => {
        const texts = section.dataset, message = section.querySelector(".mcp-message"), lost = section.querySelector(".mcp-connection-lost");
        const title = document.title.replace(/^\(\d+\) /, "");
        let etag = texts.etag, pause = EVERY, timer = 0, settling = 0;
        let asking = false, again = false, over = false, leaving = false;

        const say = (place, text, level) => {
            if (place.textContent === text) return;
            place.replaceChildren();
            if (!text) return;
            const words = document.createElement("p");
            words.className = level;
            words.textContent = text;
            place.append(words);
        };

        const showTimes = () => {
            const words = new Intl.RelativeTimeFormat(document.documentElement.lang || "en", {numeric: "always"});
            for (const time of section.querySelectorAll("time[data-mcp-ago]")) {
                const seconds = (Date.parse(time.dateTime) - Date.now()) / 1000, size = Math.abs(seconds);
                const [unit, name] = size < 2 * MINUTE ? [1, "second"] : size < 2 * HOUR ? [MINUTE, "minute"]
                    : size < 2 * DAY ? [HOUR, "hour"] : [DAY, "day"];
                time.textContent = words.format(Math.round(seconds / unit), name);
            }
        };

        const settle = () => {
            section.dataset.settling = "";
            clearTimeout(settling);
            settling = setTimeout(() => delete section.dataset.settling, SETTLE);
        };

        const isTouched = (card) => {
            const form = card.querySelector("form");
            if (!form || form.dataset.sent) return false;
            return [...form.elements].some((control) => control.type === "checkbox" ? control.checked !== control.defaultChecked
                : control.tagName === "TEXTAREA" || control.type === "number" ? control.value !== control.defaultValue : false);
        };

        const leave = (card) => {
            if (!isTouched(card)) {
                card.remove();
                return;
            }
            card.classList.add("mcp-outdated");
            card.removeAttribute("id");
            for (const control of card.querySelectorAll("button, input, select, textarea")) control.disabled = true;
            const words = card.querySelector(".mcp-outdated-message");
            words.textContent = texts.gone;
            words.hidden = false;
        };

        // What else the page says of the calls: the list of decided ones, and the number in the sidebar.
        const REST = [".changelist-form-container", "#nav-sidebar .model-approval", "#content-main .model-approval"];

        const refresh = async () => {
            const answer = await fetch(window.location.href, {cache: "no-store", redirect: "manual"});
            if (!answer.ok) return; // the next change tries again
            const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
            for (const selector of REST) {
                const there = document.querySelector(selector), made = fresh.querySelector(selector);
                if (there && made && !there.contains(section)) there.replaceWith(document.importNode(made, true));
            }
        };

        const apply = (html) => {
            if (leaving) return; // the page that comes confirms the decision
            const fresh = new DOMParser().parseFromString(html, "text/html");
            const list = section.querySelector(".mcp-cards"), cards = fresh.querySelector(".mcp-cards");
            let changed = false;
            for (const card of [...list.querySelectorAll(".mcp-card[id]")]) {
                if (!fresh.getElementById(card.id)) {
                    changed = true;
                    leave(card);
                }
            }
            let next = null;
            for (const card of [...cards.children].reverse()) {
                const there = document.getElementById(card.id);
                if (there && there.dataset.seen === card.dataset.seen) {
                    next = there;
                    continue;
                }
                changed = true;
                const made = document.importNode(card, true);
                if (there) {
                    const before = there.querySelector("textarea"), after = made.querySelector("textarea");
                    if (before && after) after.value = before.value;
                    there.replaceWith(made);
                } else {
                    list.insertBefore(made, next);
                }
                next = made;
            }
            if (changed) settle();
            if (changed && texts.mcpPolling === "list") refresh().catch(() => {});
            const count = Number(cards.dataset.count), old = section.querySelector(".mcp-pending-count");
            const now = fresh.querySelector(".mcp-pending-count");
            if (old && now && old.textContent !== now.textContent) old.textContent = now.textContent;
            document.title = (count ? `(${count}) ` : "") + title;
            if (texts.mcpPolling === "one" && !count && !list.querySelector(".mcp-outdated")) window.location.reload();
        };

        const ask = async () => {
            const headers = {"If-None-Match": etag};
            const answer = await fetch(texts.url, {headers, cache: "no-store", redirect: "manual"});
            if (answer.type === "opaqueredirect" || answer.status === 403) {
                over = true;
                say(lost, texts.signedOut, "warning");
                return;
            }
            if (answer.status === 200) {
                apply(await answer.text());
                etag = answer.headers.get("ETag") || "";
            } else if (answer.status !== 304) {
                throw new Error(String(answer.status));
            }
            say(lost, "", "");
        };

        const look = async () => {
            clearTimeout(timer);
            again = asking;
            if (asking || over || document.hidden) return;
            asking = true;
            try {
                await ask();
                showTimes();
                pause = EVERY;
            } catch {
                say(lost, texts.lost, "warning");
                pause = Math.min(2 * pause, SLOWEST);
            } finally {
                asking = false;
                if (!over) timer = setTimeout(look, again ? 0 : pause);
            }
        };

        const send = async (form, button) => {
            const body = new FormData(form, button);
            form.dataset.sent = "1";
            for (const control of form.querySelectorAll("button")) control.setAttribute("aria-disabled", "true");
            try {
                const headers = {"X-MCP-Fragment": "1"};
                const answer = await fetch(form.action, {method: "POST", body, headers, redirect: "manual"});
                if (!answer.ok) throw new Error(String(answer.status));
                const words = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("p");
                say(message, words.textContent, words.className);
                message.focus();
            } catch {
                form.dataset.plain = "1"; // the page that comes says what is wrong
                form.requestSubmit(button);
                return;
            }
            delete form.dataset.sent;
            for (const control of form.querySelectorAll("button")) control.removeAttribute("aria-disabled");
            if (!message.querySelector(".error")) form.reset(); // there is nothing left to decide
            look();
        };

        section.addEventListener("submit", (event) => {
            const form = event.target, button = event.submitter;
            if (form.dataset.plain) return;
            if ("settling" in section.dataset || form.dataset.sent) {
                event.preventDefault();
            } else if (texts.mcpPolling === "list") {
                event.preventDefault();
                send(form, button);
            } else {
                leaving = true;
            }
        });
        window.addEventListener("pageshow", () => { leaving = false; }); // back on it
        document.addEventListener("visibilitychange", look);
        showTimes();
        timer = setTimeout(look, EVERY);
    };

    const begin = () => document.querySelectorAll("[data-mcp-polling]").forEach(start);
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
    else begin();
})();
