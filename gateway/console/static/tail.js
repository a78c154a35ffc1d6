// Puts new events at the top of the page as they come, and holds them while paused.
(() => {
  "use strict";
  const tail = document.getElementById("tail");
  const template = document.getElementById("tail-row");
  const results = document.getElementById("tail-results").content;
  const state = document.getElementById("tail-state");
  const pause = document.getElementById("tail-pause");
  const body = tail && tail.querySelector("tbody");
  if (!body || !template || !state || !pause || !window.EventSource) return;
  const LIVE = "Listening; what is new comes in at the top";
  const most = 200;
  const held = [];
  let paused = false;
  const say = (text) => { state.textContent = text; };
  const add = (data) => {
    const row = template.content.firstElementChild.cloneNode(true);
    for (const field of row.querySelectorAll("[data-field]")) field.textContent = data[field.dataset.field];
    const link = row.querySelector("a");
    link.href = data.href;
    link.setAttribute("aria-label", "Record " + data.seq);
    link.textContent = Number(data.seq).toLocaleString("en");
    row.querySelector("time").dateTime = data.when;
    const word = results.querySelector(`[data-result="${data.result}"]`) || results.querySelector('[data-result="unknown"]');
    row.querySelector(".tail-result").append(...word.cloneNode(true).childNodes);
    if (!data.reason) row.querySelector(".reason").remove();
    row.classList.add("is-new");
    body.prepend(row);
    while (body.rows.length > most) body.lastElementChild.remove();
    tail.querySelector(".tail-empty").hidden = true;
  };
  const feed = new URL(tail.dataset.feed, location.href);
  feed.searchParams.set("after", tail.dataset.after);
  const source = new EventSource(feed);
  source.addEventListener("open", () => say(paused ? "Paused" : LIVE));
  source.addEventListener("error", () => say("Connecting again…"));
  source.addEventListener("over", () => { source.close(); say("Your session is over. Sign in again to go on."); });
  source.addEventListener("message", (message) => {
    const data = JSON.parse(message.data);
    if (!paused) return add(data);
    held.push(data);
    if (held.length > most) held.shift();
    say("Paused, " + held.length + " waiting");
  });
  document.getElementById("tail-plain").hidden = true;
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.lastElementChild.textContent = paused ? "Go on" : "Pause";
    pause.setAttribute("aria-pressed", String(paused));
    if (!paused) while (held.length) add(held.shift());
    say(paused ? "Paused" : LIVE);
  });
})();
