"use strict";
(() => {
  /* Everything shown is put in as text, never as HTML: names and ids come from outside. */
  const make = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === true) node.setAttribute(key, "");
      else if (value !== false && value !== null) node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  };

  /* ---- Light and dark ---- */
  const theme = () => {
    const button = document.getElementById("theme");
    const root = document.documentElement;
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
    const show = () => {
      button.textContent = isDark() ? "Light" : "Dark";
      button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
      button.setAttribute("aria-pressed", String(isDark()));
    };
    try {
      const kept = localStorage.getItem("rankwood-theme");
      if (kept === "dark" || kept === "light") root.dataset.theme = kept;
    } catch { /* a page from disk may keep nothing */ }
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem("rankwood-theme", root.dataset.theme); } catch { /* as above */ }
      show();
    });
    system.addEventListener("change", show);
    button.hidden = false;
    show();
  };

  /* ---- Sortable tables ---- */
  const sortable = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    const first = [...body.rows];
    const collator = new Intl.Collator(undefined, { numeric: true });
    const sortBy = (place, direction) => {
      const isNumber = heads[place].classList.contains("number");
      const valueOf = (row) => {
        const cell = row.cells[place];
        if (!isNumber) return cell.textContent;
        return cell.dataset.order === "" ? null : Number(cell.dataset.order);
      };
      const rows = first.map((row) => [valueOf(row), row]);
      rows.sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null); /* without a value: last, either way */
        return direction * (isNumber ? a - b : collator.compare(a, b));
      });
      body.append(...rows.map(([, row]) => row));
      heads.forEach((head, other) =>
        head.setAttribute("aria-sort", other !== place ? "none" : direction > 0 ? "ascending" : "descending"));
    };
    heads.forEach((head, place) => {
      head.querySelector("button").addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const start = head.classList.contains("number") ? -1 : 1; /* numbers: the largest first */
        const same = start > 0 ? "ascending" : "descending";
        sortBy(place, before === same ? -start : start);
      });
    });
  };

  /* ---- Query explorer ---- */
  const unpack = ({ low, step, data }) => {
    const bytes = atob(data);
    const values = new Float64Array(bytes.length / 2);
    for (let place = 0; place < values.length; place++) {
      const number = bytes.charCodeAt(2 * place) + 256 * bytes.charCodeAt(2 * place + 1);
      values[place] = number === 0xffff ? NaN : low + step * number;
    }
    return values;
  };
  const plain = (value) => (Number.isNaN(value) ? "–" : value.toFixed(4).replace("-", "−"));
  const signed = (value) =>
    Number.isNaN(value) ? "–" : (value > 0 ? "+" : value < 0 ? "−" : "") + Math.abs(value).toFixed(4);
  const count = (amount) => amount.toLocaleString("en");
  const PAGE = 25;
  const SORTS = {
    change: "largest difference first",
    gain: "second gains most first",
    loss: "second loses most first",
    id: "by query",
  };

  class Explorer {
    constructor(place, data) {
      this.data = data;
      this.place = place;
      this.values = data.measures.map(() => []);
      this.page = 0;
      this.opened = null;
      this.isAlone = data.algorithms.length === 1;
      this.build();
      this.update();
    }

    valuesOf(algorithm) {
      const measure = Number(this.measure.value);
      this.values[measure][algorithm] ??= unpack(this.data.measures[measure].values[algorithm]);
      return this.values[measure][algorithm];
    }

    choice(label, id, options, chosen) {
      const select = make("select", { id });
      for (const [value, text] of options) {
        const option = make("option", { value }, text);
        option.selected = String(value) === String(chosen);
        select.append(option);
      }
      select.addEventListener("change", () => this.update());
      return [select, make("label", { for: id }, label, select)];
    }

    build() {
      const { algorithms, folds, measures, first, second } = this.data;
      const names = algorithms.map((name, place) => [place, name]);
      const labels = [];
      const add = (name, ...rest) => {
        const [select, label] = this.choice(...rest);
        this[name] = select;
        labels.push(label);
      };
      add("first", this.isAlone ? "Algorithm" : "First algorithm", "explorer-first", names, algorithms.indexOf(first));
      if (!this.isAlone) add("second", "Second algorithm", "explorer-second", names, algorithms.indexOf(second));
      add("measure", "Measure", "explorer-measure", measures.map((m, place) => [place, m.name]), 0);
      add("fold", "Fold", "explorer-fold", [["", "all folds"], ...folds.map((fold, place) => [place, fold])], "");
      const sorts = this.isAlone ? { gain: "lowest value first", loss: "highest value first", id: "by query" } : SORTS;
      add("sort", "Order", "explorer-sort", Object.entries(sorts), this.isAlone ? "gain" : "change");
      this.filter = make("input", { id: "explorer-filter", type: "search", autocomplete: "off", spellcheck: "false",
        placeholder: "part of an id" });
      this.filter.addEventListener("input", () => this.update());
      labels.push(make("label", { for: "explorer-filter" }, "Query", this.filter));
      this.tally = make("p", { class: "tally", "aria-live": "polite" });
      this.table = make("div", { class: "queries-frame" });
      this.previous = make("button", { type: "button" }, "Previous");
      this.next = make("button", { type: "button" }, "Next");
      this.previous.addEventListener("click", () => this.turn(-1));
      this.next.addEventListener("click", () => this.turn(1));
      this.where = make("span", {});
      this.place.append(make("div", { class: "controls" }, ...labels), this.tally, this.table,
        make("div", { class: "pager" }, this.previous, this.next, this.where));
    }

    turn(pages) {
      this.page += pages;
      this.opened = null;
      this.show();
    }

    update() {
      const wanted = this.filter.value.trim().toLowerCase();
      const fold = this.fold.value === "" ? null : Number(this.fold.value);
      const one = this.valuesOf(Number(this.first.value));
      const other = this.isAlone ? null : this.valuesOf(Number(this.second.value));
      const rows = [];
      this.data.queries.forEach((id, query) => {
        if (fold !== null && this.data.foldOf[query] !== fold) return;
        if (wanted && !id.toLowerCase().includes(wanted)) return;
        const difference = other ? Math.round((other[query] - one[query]) * 1e6) / 1e6 : one[query];
        rows.push({ query, id, one: one[query], other: other ? other[query] : NaN, difference });
      });
      this.rows = this.sorted(rows);
      this.largest = rows.reduce((most, row) => Math.max(most, Math.abs(row.difference) || 0), 0) || 1;
      this.page = 0;
      this.opened = null;
      this.tell();
      this.show();
    }

    sorted(rows) {
      const collator = new Intl.Collator("en", { numeric: true });
      const sort = this.sort.value;
      /* Of an error the lower value is the better one. */
      const sign = this.data.measures[Number(this.measure.value)].lower ? -1 : 1;
      const key = { change: (row) => Math.abs(row.difference), gain: (row) => sign * row.difference,
        loss: (row) => -sign * row.difference }[sort];
      const direction = this.isAlone ? -1 : 1;
      const byId = (a, b) => collator.compare(a.id, b.id) || a.query - b.query;
      if (!key) return rows.sort(byId);
      return rows.sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || byId(a, b);
        return direction * (y - x) || byId(a, b);
      });
    }

    tell() {
      const known = this.rows.filter((row) => !Number.isNaN(row.difference));
      const mean = known.reduce((sum, row) => sum + row.difference, 0) / known.length;
      if (this.isAlone || !known.length) {
        this.tally.textContent = known.length
          ? `${count(known.length)} queries, mean ${plain(mean)}.` : "No query fits, or none has values of both.";
        return;
      }
      const sign = this.data.measures[Number(this.measure.value)].lower ? -1 : 1;
      const better = known.filter((row) => sign * row.difference > 0).length;
      const worse = known.filter((row) => sign * row.difference < 0).length;
      const name = make("bdi", {}, this.data.algorithms[Number(this.second.value)]);
      this.tally.replaceChildren(name, ` is better for ${count(better)}, equal for ${count(known.length - better - worse)} ` +
        `and worse for ${count(worse)} of ${count(known.length)} queries; mean difference ${signed(mean)}.`);
    }

    show() {
      const start = this.page * PAGE;
      const shown = this.rows.slice(start, start + PAGE);
      const heads = this.isAlone ? ["Query", "Fold", "Value"] : ["Query", "Fold", "First", "Second", "Difference"];
      const kinds = this.isAlone ? ["", "fold", "value"] : ["", "fold", "value", "value", "bar"];
      const columns = kinds.map((kind) => make("col", { class: kind || null }));
      const head = heads.map((text, place) => make("th", { scope: "col", class: place > 1 && place < 4 ? "number" : null }, text));
      const body = make("tbody", {}, ...shown.map((row) => this.line(row)));
      this.table.replaceChildren(make("table", { class: "queries" }, make("colgroup", {}, ...columns),
        make("thead", {}, make("tr", {}, ...head)), body));
      this.previous.disabled = this.page === 0;
      this.next.disabled = start + PAGE >= this.rows.length;
      this.where.textContent = this.rows.length
        ? `${count(start + 1)} to ${count(start + shown.length)} of ${count(this.rows.length)}` : "";
    }

    line(row) {
      const isKept = Object.hasOwn(this.data.rankings, String(row.query));
      const id = make("bdi", {}, row.id);
      const name = isKept ? make("button", { type: "button", class: "open", "aria-expanded": "false" }, id) : id;
      const cells = [make("th", { scope: "row" }, name), make("td", {}, make("bdi", {}, this.data.folds[this.data.foldOf[row.query]] ?? "")),
        make("td", { class: "number" }, plain(row.one))];
      if (!this.isAlone) cells.push(make("td", { class: "number" }, plain(row.other)), make("td", {}, this.bar(row)));
      const line = make("tr", {}, ...cells);
      if (isKept) name.addEventListener("click", () => this.toggle(line, name, row));
      return line;
    }

    bar(row) {
      const share = Number.isNaN(row.difference) ? 0 : (50 * Math.abs(row.difference)) / this.largest;
      const sign = this.data.measures[Number(this.measure.value)].lower ? -1 : 1;
      const stripe = make("b", { class: sign * row.difference < 0 ? "worse" : null });
      stripe.style.width = `${share}%`;
      stripe.style.left = row.difference < 0 ? `${50 - share}%` : "50%";
      return make("div", { class: "difference" }, make("span", {}, signed(row.difference)), make("i", { "aria-hidden": "true" }, stripe));
    }

    toggle(line, button, row) {
      const isOpen = button.getAttribute("aria-expanded") === "true";
      if (this.opened) {
        this.opened.detail.remove();
        this.opened.button.setAttribute("aria-expanded", "false");
        this.opened = null;
      }
      if (isOpen) return;
      const detail = make("tr", { class: "rankings" }, make("td", { colspan: String(line.cells.length) }, ...this.rankings(row)));
      line.after(detail);
      button.setAttribute("aria-expanded", "true");
      this.opened = { detail, button };
    }

    rankings(row) {
      const kept = this.data.rankings[String(row.query)];
      const sides = [[this.first, this.second]];
      if (!this.isAlone) sides.push([this.second, this.first]);
      const lists = sides.map(([own, against], place) =>
        this.side(kept, Number(own.value), against ? Number(against.value) : null, place === 1));
      const rest = kept.n > this.data.depth ? ` The first ${this.data.depth} of ${count(kept.n)} documents are shown.` : "";
      const moves = this.isAlone ? "" : " An arrow right is the rank the second algorithm gives; ▲ and ▼ tell by how many ranks a " +
        "document stands higher or lower than in the first, in colour for relevant documents.";
      return [make("div", { class: "sides" }, ...lists), make("p", { class: "legend" }, `Boxes are labels; the stronger the colour, the more relevant, by one scale for all queries.${moves}${rest}`)];
    }

    side(kept, own, against, isSecond) {
      const box = make("div", {}, make("h4", {}, make("bdi", {}, this.data.algorithms[own])));
      const ranks = kept.ranks[own];
      if (!ranks) {
        box.append(make("p", {}, "No ranking: its cell failed."));
        return box;
      }
      const others = against === null ? null : kept.ranks[against];
      const order = ranks.map((rank, document) => [rank, document]).filter(([rank]) => rank <= this.data.depth);
      order.sort(([a], [b]) => a - b);
      const items = order.map(([rank, document]) => {
        const label = kept.labels[document];
        /* One label, one colour, whatever the query: four shades up to the greatest label of the page. */
        const shade = label !== null && label > 0 ? Math.ceil((4 * label) / this.data.greatest) : 0;
        const kind = shade ? `grade shade${shade}` : "grade";
        return make("li", {}, make("span", { class: "rank" }, String(rank)),
          make("span", { class: kind, title: `label ${label ?? "unknown"}` }, label === null ? "?" : String(label)),
          make("bdi", { class: "name", title: kept.names[document] }, kept.names[document]),
          others ? this.move(rank, others[document], isSecond, label > 0) : "");
      });
      box.append(make("ol", {}, ...items));
      return box;
    }

    move(rank, other, isSecond, isRelevant) {
      if (!isSecond) return make("span", { class: "move" }, rank === other ? "=" : `→ ${other}`);
      const rise = other - rank;
      if (!rise) return make("span", { class: "move" }, "=");
      /* It is good that a relevant document rises; of the others a move has no colour. */
      const kind = isRelevant ? `move ${rise > 0 ? "up" : "down"}` : "move";
      return make("span", { class: kind }, `${rise > 0 ? "▲" : "▼"} ${Math.abs(rise)}`);
    }
  }

  theme();
  document.querySelectorAll("table.sortable").forEach(sortable);
  const place = document.getElementById("explorer");
  if (place) new Explorer(place, JSON.parse(document.getElementById("explorer-data").textContent));
  /* On paper nothing can be opened: show what is marked so. */
  const printed = document.querySelectorAll("details.printed, details.failure");
  window.addEventListener("beforeprint", () => printed.forEach((part) => { part.dataset.was = part.open ? "open" : ""; part.open = true; }));
  window.addEventListener("afterprint", () => printed.forEach((part) => { part.open = part.dataset.was === "open"; }));
})();
