// Shows times in the reader's own zone, if asked to, and takes them so. Without it every page says what it says in UTC.
(() => {
  "use strict";
  const button = document.getElementById("zone-switch");
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!button || !own || own === "UTC") return;
  const key = "coatcheck-zone";
  const zones = document.querySelectorAll(".zone");
  const inputs = document.querySelectorAll('input[type="datetime-local"]');
  const format = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
  const inOwn = (utc) => (utc ? format.format(new Date(utc + "Z")).replace(" ", "T") : "");
  const inUtc = (value) => (value ? new Date(value).toISOString().slice(0, 19) : "");
  let local = false;
  const showTimes = (part) => {
    for (const time of part.querySelectorAll("time[datetime]")) {
      if (time.dataset.utc === undefined) time.dataset.utc = time.textContent;
      const moment = new Date(time.dateTime);
      time.textContent = local && !Number.isNaN(moment.valueOf()) ? format.format(moment) : time.dataset.utc;
    }
  };
  const turn = () => {
    local = !local;
    showTimes(document);
    for (const zone of zones) zone.textContent = local ? own : "UTC";
    for (const input of inputs) input.value = local ? inOwn(input.value) : inUtc(input.value);
    button.textContent = local ? "show UTC" : "show my own";
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    turn();
    sessionStorage.setItem(key, local ? "own" : "utc");
  });
  document.addEventListener("added", (event) => showTimes(event.target));
  // An address holds UTC, so that it means the same to everybody.
  document.addEventListener("formdata", (event) => {
    if (local) for (const input of event.target.querySelectorAll('input[type="datetime-local"]')) event.formData.set(input.name, inUtc(input.value));
  });
  if (sessionStorage.getItem(key) === "own") turn();
})();
