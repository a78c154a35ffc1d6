// Shows times in the reader's own zone, if asked to. Without it every page says what it says in UTC.
(() => {
  "use strict";
  const zone = document.getElementById("zone");
  const button = document.getElementById("zone-switch");
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!zone || !button || !own || own === "UTC") return;
  const format = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
  const show = (local) => {
    for (const time of document.querySelectorAll("time[datetime]")) {
      if (time.dataset.utc === undefined) time.dataset.utc = time.textContent;
      const moment = new Date(time.dateTime);
      time.textContent = local && !Number.isNaN(moment.valueOf()) ? format.format(moment) : time.dataset.utc;
    }
    zone.textContent = local ? own : "UTC";
    button.textContent = local ? "show UTC" : "show my own";
  };
  const key = "coatcheck-zone";
  let local = sessionStorage.getItem(key) === "own";
  button.hidden = false;
  button.addEventListener("click", () => {
    local = !local;
    sessionStorage.setItem(key, local ? "own" : "utc");
    show(local);
  });
  if (local) show(true);
})();
