// Filters, sorting, downloads and the runs behind a cell. Without it the page shows everything that stands in it.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const one = (selector, where = document) => where.querySelector(selector);
  const all = (selector, where = document) => [...where.querySelectorAll(selector)];
  const make = (name, attributes = {}, ...content) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...content);
    return element;
  };
  const table = one("#cells"), rows = all("tbody tr", table);
  const headings = all("thead tr:last-child th", table).map((heading) => heading.textContent);
  const fields = new Map(rows.map((row) => [row, all("td", row).map((cell) => cell.textContent)]));

  // Numbers by size, whatever follows them; anything else by its letters.
  const sortKey = (text) => {
    const plain = text.replace("−", "-").replace("+", "").replace(/,(?=\d{3})/g, "").replace("< ", "");
    const number = plain === "∞" ? Infinity : parseFloat(plain);
    return Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) => {
    const [x, y] = [sortKey(a), sortKey(b)];
    if (typeof x === "number" && typeof y === "number") return x === y ? 0 : x < y ? -1 : 1;
    if (typeof x !== typeof y) return typeof x === "number" ? -1 : 1;
    return x.localeCompare(y);
  };

  function sortable(sorted) {
    const body = one("tbody", sorted), columns = all("thead tr:last-child th", sorted);
    if (!body || body.rows.length < 2) return;
    columns.forEach((heading, index) => {
      const button = make("button", { type: "button", class: "sort" }, ...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        const down = heading.getAttribute("aria-sort") === "ascending";
        columns.forEach((other) => other.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", down ? "descending" : "ascending");
        const ordered = [...body.rows].map((row) => [row, row.cells[index].textContent]);
        ordered.sort(([, a], [, b]) => (down ? -1 : 1) * compare(a, b));
        body.append(...ordered.map(([row]) => row));
      });
    });
  }

  const chosen = new Map();
  function filters() {
    const form = one("#filters");
    for (const heading of ["data set", "strategy", "k", "ε", "ε holds", "protocol", "verdict"]) {
      const column = headings.indexOf(heading);
      const values = [...new Set(rows.map((row) => fields.get(row)[column]))].sort(compare);
      const select = make("select", { name: heading }, make("option", { value: "" }, "all"));
      for (const value of values) select.append(make("option", { value }, value || "none"));
      select.addEventListener("change", () => { chosen.set(column, select.value); show(); });
      form.append(make("label", {}, heading, select));
    }
    const reset = make("button", { type: "reset" }, "show all");
    form.addEventListener("reset", () => { chosen.clear(); show(); });
    form.append(reset);
  }

  function show() {
    let count = 0;
    for (const row of rows) {
      const kept = [...chosen].every(([column, value]) => !value || fields.get(row)[column] === value);
      row.hidden = !kept;
      count += kept;
    }
    one("#shown").textContent = `${count} of ${rows.length} grids shown`;
  }

  // What is shown, in the order in which it is shown, each row with what its epsilon means.
  function shown() {
    return all("tbody tr", table).filter((row) => !row.hidden).map((row) => {
      const cell = data.cells[row.dataset.cell];
      const own = Object.fromEntries(headings.map((heading, i) => [heading, fields.get(row)[i]]));
      return { ...own, folder: cell.name, guarantee: cell.guarantee };
    });
  }
  // A spreadsheet would take a text that begins like a formula for one.
  const quoted = (text) => `"${(/^[=+@\t]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
  const asCsv = (found) => [[...headings, "folder", "guarantee"], ...found.map((row) => Object.values(row))]
    .map((line) => line.map(quoted).join(",")).join("\n") + "\n";

  function download(name, type, text) {
    const address = URL.createObjectURL(new Blob([text], { type }));
    make("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  // The runs behind a cell: packed inside the page or, of a large store, in a file beside it.
  const dialog = one("#runs"), waiting = new Map();
  window.dpBenchRuns = (number, opened) => waiting.get(number)(opened);
  const unpacked = (text) => new Response(new Blob([Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))])
    .stream().pipeThrough(new DecompressionStream("deflate"))).json();
  const beside = (number) => new Promise((resolve, reject) => {
    const src = `data/grids/${number}.js`, script = make("script", { src });
    waiting.set(number, resolve);
    script.addEventListener("error", () => reject(
      new Error(`${src}: expected beside this page, got nothing; keep the report's folder together`)));
    document.head.append(script);
  });
  let inside, asked;
  const runsOf = async (number) => data.runs ? (await (inside ??= unpacked(data.runs)))[number]
    : (data.cells[number].opened ??= await beside(number));

  async function open(number) {
    const body = one("#runs-body");
    asked = number;
    history.replaceState(null, "", `#cell-${number}`);
    body.replaceChildren(make("p", {}, "Loading the runs …"));
    one("#runs-title").textContent = rowOf(number) ? fields.get(rowOf(number)).slice(0, 4).join(", ").replace(/, ([^,]*), ([^,]*)$/, ", k = $1, ε = $2") : data.cells[number].name;
    if (!dialog.open) dialog.showModal();
    try {
      const opened = await runsOf(number);
      if (asked === number) fill(opened, body);
    } catch (problem) {
      if (asked === number) body.replaceChildren(make("p", { class: "warning" }, problem.message));
    }
  }
  const rowOf = (number) => rows.find((row) => row.dataset.cell === String(number));

  function fill(opened, body) {
    body.replaceChildren(make("p", {}, make("strong", {}, "Ledger: "), opened.ledger));
    if (opened.caveats) body.append(make("p", { class: "note" }, opened.caveats));
    opened.points.forEach((point, i) => {
      const part = make("details", opened.points.length === 1 || i === 0 ? { open: "" } : {},
        make("summary", {}, `${point.name || "its only point"}: ${point.mean || "no value"}, ${point.runs.length} seed${point.runs.length === 1 ? "" : "s"}`));
      const render = () => { if (part.open && !part.dataset.drawn) { part.dataset.drawn = "1"; details(part, point, opened); } };
      part.addEventListener("toggle", render);
      body.append(part);
      render();
    });
    const sums = Object.entries(opened.data).map(([name, sum]) => `${sum}  ${name}`).join("\n");
    if (sums) body.append(make("details", {}, make("summary", {}, "Checksums of the data (SHA-256)"), make("pre", {}, sums)));
  }

  const COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999933"];
  function details(part, point, opened) {
    const names = [...new Set(point.runs.flatMap((run) => Object.keys(run.curves)))].filter((name) => name !== "step");
    const panels = names.filter((name) => name === "metric" || point.runs.some((run) => Array.isArray(run.curves[name]))).map((name) => ({
      title: name === "metric" ? opened.metric : `${name}ₜ`, x: "step", y: name === "metric" ? opened.metric : `${name}ₜ`,
      yLog: name === "metric" ? opened.log : point.runs.every((run) => [run.curves[name]].flat().every((value) => value > 0)),
      series: point.runs.map((run, i) => ({ label: `seed ${run.seed}`, kind: "line", color: COLORS[i % COLORS.length],
        x: opened.steps[run.curves.step], y: opened.steps[run.curves.step].map((_, j) => (Array.isArray(run.curves[name]) ? run.curves[name][j] : run.curves[name]) ?? null) })),
    }));
    if (panels.length) part.append(dpPlot({ columns: Math.min(2, panels.length), panels }));
    const still = names.filter((name) => name !== "metric" && !point.runs.some((run) => Array.isArray(run.curves[name])));
    if (still.length) part.append(make("p", { class: "note" }, `Constant: ${still.map((name) => `${name} = ${point.runs[0].curves[name]}`).join(", ")}.`));
    for (const run of point.runs) {
      const command = point.command.replace("{seed}", run.seed), text = `git checkout ${run.commit.replace("+", "")}\n${command}`;
      const copy = make("button", { type: "button", class: "copy" }, "copy");
      copy.addEventListener("click", async () => {
        try { await navigator.clipboard.writeText(text); copy.textContent = "copied"; }
        catch { getSelection().selectAllChildren(copy.parentElement.querySelector("pre")); copy.textContent = "selected: press Ctrl-C"; }
      });
      part.append(make("section", { class: "run" },
        make("h4", {}, `Seed ${run.seed}: ${run.status}; best ${run.best} at step ${run.best_step}, last ${run.final}`),
        make("div", { class: "command" }, make("pre", {}, text), copy),
        make("pre", { class: "note" }, `${point.folder}/seed${run.seed}\ncommit ${run.commit}, arithmetic ${run.arithmetic}, finished ${run.finished}\nspec ${run.digest}\nmetrics ${run.metrics_sha256}`)));
    }
  }

  function theme() {
    const button = one("#theme"), order = ["light dark", "light", "dark"], words = ["system", "light", "dark"];
    let at = 0;
    button.hidden = false;
    button.addEventListener("click", () => {
      at = (at + 1) % 3;
      document.documentElement.style.colorScheme = order[at];
      button.textContent = `colors: ${words[at]}`;
    });
  }

  // What is long and asked for rarely is folded; paper has no clicks.
  function folds() {
    const folded = all("details.folded");
    let closed = [];
    folded.forEach((part) => { part.open = false; });
    addEventListener("beforeprint", () => { closed = folded.filter((part) => !part.open); closed.forEach((part) => { part.open = true; }); });
    addEventListener("afterprint", () => closed.forEach((part) => { part.open = false; }));
  }

  document.documentElement.classList.add("script");
  folds();
  one("#tools").hidden = false;
  filters();
  show();
  theme();
  all("table").forEach(sortable);
  one("#as-csv").addEventListener("click", () => download("dp_bench.csv", "text/csv", asCsv(shown())));
  one("#as-json").addEventListener("click", () => download("dp_bench.json", "application/json", JSON.stringify(shown(), null, 1)));
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-cell]"), row = event.target.closest("tr[data-cell]");
    if (!link && !row) return;
    event.preventDefault();
    open(Number((link || row).dataset.cell));
  });
  one("#runs-close").addEventListener("click", () => dialog.close());
  // An opened cell has an address that can be shared.
  dialog.addEventListener("close", () => history.replaceState(null, "", location.href.split("#")[0]));
  const follow = () => {
    const linked = location.hash.match(/^#cell-(\d+)$/);
    if (linked && data.cells[linked[1]]) open(Number(linked[1]));
  };
  window.addEventListener("hashchange", follow);
  follow();
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  // Charts are drawn when they come into view: hundreds of them must not delay the first click.
  const watch = new IntersectionObserver((seen) => seen.filter((entry) => entry.isIntersecting).forEach(({ target }) => {
    watch.unobserve(target);
    one("img", target).after(dpPlot(data.charts[target.dataset.chart]));
    target.classList.add("drawn");
  }), { rootMargin: "400px" });
  all("figure[data-chart]").forEach((figure) => watch.observe(figure));
})();
