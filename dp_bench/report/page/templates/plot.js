// Charts as SVG, from the numbers that the static pictures were drawn from: values on hover and by arrow keys.
const dpPlot = (() => {
  "use strict";
  const SPACE = document.createRange().createContextualFragment("<svg></svg>").firstChild.namespaceURI;
  const SIZE = { width: 460, height: 300, left: 62, right: 12, top: 26, bottom: 44 };

  const make = (name, attributes = {}, text) => {
    const element = document.createElementNS(SPACE, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const short = (value) => (value === null ? "none" : String(Number(value.toPrecision(5))));
  const known = (value) => value !== null && value !== undefined;

  // Names along y get the room that they need: about 7 units a letter, 16 a line.
  function sized(panel) {
    const names = panel.names || [], letters = Math.max(0, ...names.map((name) => name.length));
    return { ...SIZE, left: Math.max(SIZE.left, 12 + 7 * letters), height: Math.max(SIZE.height, SIZE.top + SIZE.bottom + 16 * names.length) };
  }

  function scale(low, high, from, to, log) {
    const map = log ? Math.log10 : (value) => value;
    let [a, b] = [map(low), map(high)];
    if (a === b) [a, b] = [a - 0.5, b + 0.5];
    const place = (value) => from + ((map(value) - a) / (b - a)) * (to - from);
    place.ticks = ticks(a, b, log);
    return place;
  }

  function ticks(a, b, log) {
    if (log && b - a > 0.8) {
      const steps = b - a > 2.5 ? [1] : b - a > 1.5 ? [1, 3] : [1, 2, 5];
      const found = [];
      for (let d = Math.floor(a); d <= b; d++) for (const s of steps) found.push(s * 10 ** d);
      return found.filter((value) => Math.log10(value) >= a - 1e-9 && Math.log10(value) <= b + 1e-9);
    }
    const [low, high] = log ? [10 ** a, 10 ** b] : [a, b];
    const raw = (high - low) / 5, unit = 10 ** Math.floor(Math.log10(raw));
    const step = unit * ([1, 2, 5, 10].find((m) => m * unit >= raw) || 10);
    const found = [];
    for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-9; t += step) found.push(Number(t.toPrecision(12)));
    return found;
  }

  function range(values, log, pad) {
    const usable = values.filter((value) => known(value) && (!log || value > 0));
    if (!usable.length) return [log ? 0.1 : 0, 1];
    const low = usable.reduce((a, b) => Math.min(a, b)), high = usable.reduce((a, b) => Math.max(a, b));
    if (log) return [low / (high / low) ** pad, high * (high / low) ** pad];
    return [low - pad * (high - low), high + pad * (high - low)];
  }

  function axes(svg, panel, size, x, y) {
    const { width, height, left, right, top, bottom } = size;
    for (const tick of panel.ticks || x.ticks) {
      svg.append(make("line", { class: "rule", x1: x(tick), x2: x(tick), y1: top, y2: height - bottom }));
      svg.append(make("text", { x: x(tick), y: height - bottom + 15, "text-anchor": "middle" }, short(tick)));
    }
    const named = panel.names ? panel.names.map((name, i) => [i, name]) : y.ticks.map((tick) => [tick, short(tick)]);
    for (const [tick, name] of named) {
      svg.append(make("line", { class: "rule", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }));
      svg.append(make("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, name));
    }
    labels(svg, panel, size);
  }

  function labels(svg, panel, size) {
    const { width, height, left, right, top } = size;
    svg.append(make("text", { x: left, y: top - 10, class: "title" }, panel.title));
    const middle = panel.names ? width / 2 : (left + width - right) / 2;
    svg.append(make("text", { x: middle, y: height - 8, "text-anchor": "middle" }, panel.x));
    const at = `translate(13 ${(top + height - 44) / 2}) rotate(-90)`;
    svg.append(make("text", { transform: at, "text-anchor": "middle" }, panel.y));
  }

  // Where names stand along y, values and their error bars lie along x.
  function drawSeries(svg, one, size, x, y, points, names) {
    const { width, left, right } = size;
    const group = make("g", { style: `--own: ${one.color}`, class: "series" });
    svg.append(group);
    if (one.kind === "level") {
      const at = { x1: left, x2: width - right, y1: y(one.y[0]), y2: y(one.y[0]) };
      group.append(make("line", { ...at, "stroke-dasharray": (one.dashes || []).join(" ") }));
      points.push({ at: [width - right - 4, y(one.y[0])], text: `${one.label}: ${short(one.y[0])}` });
      return;
    }
    const whole = one.x.map((value, i) => [value, one.y[i], i]).filter(([a, b]) => known(a) && known(b));
    if (one.low && one.kind === "line") {
      const edge = (values, rows) => rows.map(([a, , i]) => `${x(a).toFixed(1)},${y(values[i]).toFixed(1)}`);
      const inside = whole.filter(([, , i]) => known(one.low[i]) && known(one.high[i]));
      group.append(make("polygon", { points: [...edge(one.low, inside), ...edge(one.high, [...inside].reverse())].join(" ") }));
    }
    if (one.kind === "line" || one.kind === "bars") {
      const path = whole.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ");
      group.append(make("polyline", { points: path, "stroke-dasharray": (one.dashes || []).join(" ") }));
    }
    for (const [a, b, i] of whole) {
      if (one.kind !== "line") {
        if (one.low && known(one.low[i]) && one.low[i] !== one.high[i])
          group.append(make("line", names
            ? { x1: x(one.low[i]), x2: x(one.high[i]), y1: y(b), y2: y(b) }
            : { x1: x(a), x2: x(a), y1: y(one.low[i]), y2: y(one.high[i]) }));
        group.append(make("circle", { cx: x(a), cy: y(b), r: 3.6, class: one.hollow ? "hollow" : "filled" }));
      }
      const spread = one.low && known(one.low[i]) ? ` (${short(one.low[i])} to ${short(one.high[i])})` : "";
      const told = names ? `${names[Math.round(b)]}, ${one.label}: ${short(a)}${spread}` : `${one.label}: ${short(b)}${spread} at ${short(a)}`;
      points.push({ at: [x(a), y(b)], text: told });
    }
  }

  const VIRIDIS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  function viridis(share) {
    const at = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1), i = Math.min(Math.floor(at), VIRIDIS.length - 2);
    return `rgb(${VIRIDIS[i].map((c, j) => Math.round(c + (VIRIDIS[i + 1][j] - c) * (at - i))).join(",")})`;
  }

  function drawHeat(svg, panel, size, points) {
    const heat = panel.heat, { width, height, left, right, top, bottom } = size;
    const w = (width - left - right) / heat.x.length, h = (height - top - bottom) / heat.y.length;
    const all = heat.values.flat().filter(known);
    const low = all.reduce((a, b) => Math.min(a, b), Infinity), high = all.reduce((a, b) => Math.max(a, b), -Infinity);
    const gone = new Set(heat.diverged.map(String));
    heat.values.forEach((row, r) => row.forEach((value, c) => {
      const share = known(value) ? (value - low) / (high - low || 1) : 0;
      const at = { x: left + c * w, y: height - bottom - (r + 1) * h, width: w, height: h };
      const fill = known(value) ? viridis(heat.higher ? share : 1 - share) : "transparent";
      svg.append(make("rect", { ...at, fill, class: "cell" }));
      const mark = Object.entries(heat.marks).filter(([, place]) => place[0] === r && place[1] === c).map(([name]) => name);
      const centre = [at.x + w / 2, at.y + h / 2];
      if (mark.length) svg.append(make("text", { x: centre[0], y: centre[1] + 5, class: "mark" }, mark.includes("our best") ? "★" : "◯"));
      const found = known(value) ? short(value) : gone.has(String([r, c])) ? "diverged" : "not run";
      points.push({ at: centre, text: `${panel.x} ${short(heat.x[c])}, ${panel.y} ${short(heat.y[r])}: ${found}${mark.map((m) => `, ${m}`).join("")}` });
    }));
    heat.x.forEach((value, c) => svg.append(make("text", { x: left + (c + 0.5) * w, y: height - bottom + 15, "text-anchor": "middle" }, Number(value.toPrecision(3)))));
    heat.y.forEach((value, r) => svg.append(make("text", { x: left - 6, y: height - bottom - (r + 0.5) * h + 4, "text-anchor": "end" }, Number(value.toPrecision(3)))));
    labels(svg, panel, size);
  }

  // One panel with its tooltip. The arrow keys visit every value; a screen reader hears it.
  function draw(panel) {
    const size = sized(panel), { width, height, left, right, top, bottom } = size, points = [];
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: "0", class: "plot" });
    svg.setAttribute("aria-label", `${panel.title}: ${panel.y} against ${panel.x}. Arrow keys read the values.`);
    const series = panel.series || [];
    if (panel.heat) drawHeat(svg, panel, size, points);
    else {
      const ends = (s) => [...(s.low || []), ...(s.high || [])];
      const xs = series.filter((s) => s.kind !== "level").flatMap((s) => [...s.x, ...(panel.names ? ends(s) : [])]);
      const ys = series.flatMap((s) => [...s.y, ...(panel.names ? [] : ends(s))]);
      let xr = range(xs, panel.xLog, panel.ticks ? 0.08 : 0.02), yr = range(ys, panel.yLog, 0.05);
      if (panel.band) xr = [Math.max(xr[0], -13), Math.min(xr[1], 13)].map((v, i) => (i ? Math.max(v, 3) : Math.min(v, -3)));
      if (known(panel.from)) yr = [panel.from, yr[1]];
      if (panel.names) yr = [panel.names.length - 0.5, -0.5];
      const clamp = (place, a, b) => Object.assign((v) => Math.min(Math.max(place(v), Math.min(a, b)), Math.max(a, b)), { ticks: place.ticks });
      const x = clamp(scale(...xr, left, width - right, panel.xLog), left, width - right);
      const y = clamp(scale(...yr, height - bottom, top, panel.yLog), height - bottom, top);
      if (panel.band) svg.append(make("rect", { x: x(panel.band[0]), y: top, width: x(panel.band[1]) - x(panel.band[0]), height: height - top - bottom, class: "band" }));
      axes(svg, panel, size, x, y);
      // Strategies over the same few epsilons would hide each other: they stand side by side, within half of the way to the next.
      const colors = [...new Set(series.filter((s) => s.kind === "bars" || s.kind === "points").map((s) => s.color))];
      const way = Math.min(...(panel.ticks || []).slice(1).map((tick, i) => x(tick) - x(panel.ticks[i])));
      const apart = Math.min(6, way / 2 / colors.length);
      for (const one of series) {
        const aside = panel.ticks && colors.includes(one.color) ? apart * (colors.indexOf(one.color) - (colors.length - 1) / 2) : 0;
        drawSeries(svg, one, size, (value) => x(value) + aside + (aside && one.hollow ? apart / 2 : 0), y, points, panel.names);
      }
    }
    return withTooltip(svg, size, points);
  }

  function withTooltip(svg, size, points) {
    const box = document.createElement("div"), tip = document.createElement("div");
    box.className = "panel";
    tip.className = "tip";
    tip.setAttribute("role", "status");
    tip.hidden = true;
    const dot = make("circle", { r: 6, class: "dot", visibility: "hidden" });
    svg.append(dot);
    let current = -1;
    const show = (i) => {
      current = i;
      tip.hidden = i < 0;
      dot.setAttribute("visibility", i < 0 ? "hidden" : "visible");
      if (i < 0) return;
      const [x, y] = points[i].at;
      dot.setAttribute("cx", x);
      dot.setAttribute("cy", y);
      tip.textContent = points[i].text;
      tip.style.left = `${(100 * x) / size.width}%`;
      tip.style.top = `${(100 * y) / size.height}%`;
      tip.classList.toggle("leftwards", x > size.width / 2);
    };
    svg.addEventListener("pointermove", (event) => {
      const frame = svg.getBoundingClientRect(), factor = size.width / frame.width;
      const x = (event.clientX - frame.left) * factor, y = (event.clientY - frame.top) * factor;
      let best = -1, least = 40 ** 2;
      points.forEach((point, i) => {
        const distance = (point.at[0] - x) ** 2 + (point.at[1] - y) ** 2;
        if (distance < least) [best, least] = [i, distance];
      });
      show(best);
    });
    svg.addEventListener("pointerleave", () => show(-1));
    svg.addEventListener("blur", () => show(-1));
    svg.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") show(-1);
      if (!by || !points.length) return;
      event.preventDefault();
      show((current + by + points.length) % points.length);
    });
    box.append(svg, tip);
    return box;
  }

  function legend(panels) {
    const list = document.createElement("ul"), seen = new Set();
    list.className = "legend";
    for (const one of panels.flatMap((panel) => (panel.names ? [] : panel.series || []))) {
      if (seen.has(one.label)) continue;
      seen.add(one.label);
      const item = document.createElement("li"), key = make("svg", { viewBox: "0 0 24 10", "aria-hidden": "true" });
      const group = make("g", { style: `--own: ${one.color}`, class: "series" });
      if (one.kind !== "points") group.append(make("line", { x1: 0, x2: 24, y1: 5, y2: 5, "stroke-dasharray": (one.dashes || []).join(" ") }));
      if (one.kind === "points" || one.kind === "bars") group.append(make("circle", { cx: 12, cy: 5, r: 3.6, class: one.hollow ? "hollow" : "filled" }));
      key.append(group);
      item.append(key, one.label);
      list.append(item);
    }
    return list;
  }

  return (chart) => {
    const box = document.createElement("div"), panels = document.createElement("div");
    box.className = "live";
    panels.className = `panels${chart.columns > 1 ? " several" : ""}`;
    panels.append(...chart.panels.map(draw));
    box.append(panels, legend(chart.panels));
    return box;
  };
})();
