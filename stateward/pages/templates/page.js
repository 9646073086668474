// Airflow stores the chosen theme in the browser, also for pages inside it.
const paint = () => {
  let theme = null;
  try { theme = localStorage.getItem("theme"); } catch { /* storage is not allowed: the system's theme */ }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
};
paint();
addEventListener("storage", paint);

// Airflow's own pages open outside the frame, where only a link of the outer page may lead.
addEventListener("click", (event) => {
  const link = event.target.closest("a[data-outer]");
  if (!link || parent === window || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  try {
    const outer = parent.document.createElement("a");
    outer.href = link.href;
    parent.document.body.append(outer);
    outer.click();
    outer.remove();
    event.preventDefault();
  } catch { /* another site's frame: the link opens in it */ }
});

const opened = () => new Set([...document.querySelectorAll("details[open]")].map((one) => one.id));

const refresh = async () => {
  // A refresh would clear selected text, and what is being written.
  if (document.hidden || !getSelection().isCollapsed || document.querySelector("textarea:not(:placeholder-shown)")) return;
  const note = document.getElementById("stale");
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
    if (answer.redirected) return location.reload();
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    const open = opened(), focus = document.activeElement?.id;
    for (const one of fresh.querySelectorAll("details")) one.open = open.has(one.id);
    document.querySelector("main").replaceWith(fresh);
    if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
    note.hidden = true;
  } catch (error) {
    note.hidden = false;
    note.textContent = `Not refreshed, what is shown is getting old: ${error.message}`;
  }
};
// A note about what the page shows. The header tells a request of this page from one that another site makes.
addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-send]");
  if (!button) return;
  const field = document.getElementById("note"), told = document.getElementById("sent");
  const { send, ...about } = button.dataset;
  button.disabled = true;
  try {
    const answer = await fetch(send, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Stateward": "page" },
      body: JSON.stringify({ ...about, note: field.value }),
    });
    if (!answer.ok) throw new Error((await answer.json()).detail);
    field.value = "";
    await refresh();
  } catch (error) {
    told.textContent = `Not saved: ${error.message}`;
  } finally {
    button.disabled = false;
  }
});
setInterval(refresh, Number(document.documentElement.dataset.refreshS) * 1000);
addEventListener("visibilitychange", refresh);
