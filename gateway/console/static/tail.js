// Puts new events at the top of the page as they come, and holds them while paused. A tab that nobody sees listens to nothing:
// a browser has few connections to a host, and the other pages need one.
(() => {
  "use strict";
  const tail = document.getElementById("tail");
  const template = document.getElementById("tail-row");
  const results = document.getElementById("tail-results").content;
  const state = document.getElementById("tail-state");
  const pause = document.getElementById("tail-pause");
  const plain = document.getElementById("tail-plain");
  const body = tail && tail.querySelector("tbody");
  if (!body || !template || !state || !pause || !window.EventSource) return;
  const most = 200;
  const held = [];
  let last = tail.dataset.after;
  let source = null;
  let listening = false;
  let paused = false;
  let ended = "";
  const tell = () => {
    if (ended) state.textContent = ended;
    else if (paused) state.textContent = "Paused" + (held.length ? ", " + held.length + " waiting" : "");
    else state.textContent = listening ? "Listening; what is new comes in at the top" : "Connecting again…";
  };
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
    row.dispatchEvent(new Event("added", { bubbles: true })); // console.js shows its time as those of the other rows
    while (body.rows.length > most) body.lastElementChild.remove();
    tail.querySelector(".tail-empty").hidden = true;
  };
  const leave = () => {
    if (source) source.close();
    source = null;
    listening = false;
  };
  const end = (why) => {
    leave();
    ended = why;
    plain.hidden = false;
    tell();
  };
  const listen = () => {
    if (source || ended || document.hidden) return;
    const feed = new URL(tail.dataset.feed, location.href);
    feed.searchParams.set("after", last);
    source = new EventSource(feed);
    source.addEventListener("open", () => { listening = true; tell(); });
    source.addEventListener("error", () => {
      listening = false;
      // A browser comes again after a connection that broke, and not after an answer that is no feed.
      if (source && source.readyState === EventSource.CLOSED) end("Not listening: the console refused it. Load the page again.");
      else tell();
    });
    source.addEventListener("over", () => end("Your session is over. Sign in again to go on."));
    source.addEventListener("message", (message) => {
      const data = JSON.parse(message.data);
      last = data.seq;
      if (!paused) return add(data);
      held.push(data);
      if (held.length > most) held.shift();
      tell();
    });
  };
  plain.hidden = true;
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.lastElementChild.textContent = paused ? "Go on" : "Pause";
    pause.setAttribute("aria-pressed", String(paused));
    if (!paused) while (held.length) add(held.shift());
    tell();
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? leave() : listen()));
  listen();
})();
