// The script of the pages, as text in the binary. No content depends on it: it shows times in the reader's zone,
// values of curves under the pointer, smoothing and a logarithmic axis, and the updates that the feed sends of a
// running run.
#include "pages/pages.h"

namespace rivulet {

std::string_view Script() {
  return R"js("use strict";
(() => {
  // Times in the reader's zone; the UTC stays in the tooltip.
  const zoned = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  const short = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  const showTimes = (root) => {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (!isNaN(at)) time.textContent = (time.closest(".runs") ? short : zoned).format(at);
    }
  };

  // Curves: values where one points, smoothing, a logarithmic axis. The server drew them once; data-plot has their points.
  const knobs = { smooth: 0, log: false };
  try {
    Object.assign(knobs, JSON.parse(sessionStorage.getItem("rivulet-knobs") || "{}"));
  } catch { /* a browser that keeps nothing */ }
  const text = (value) => Number(value.toPrecision(5)).toString();
  const plots = new WeakMap();
  const plotOf = (figure) => {
    if (!plots.has(figure)) plots.set(figure, JSON.parse(figure.dataset.plot));
    return plots.get(figure);
  };
  // Exponential moving average without the pull of its beginning, as TensorBoard has it.
  const smoothed = (points, weight) => {
    let last = 0, seen = 0;
    return points.map(([x, y]) => {
      last = last * weight + (1 - weight) * y;
      seen = seen * weight + 1 - weight;
      return [x, last / seen];
    });
  };
  const ticksOf = (low, high) => {
    if (knobs.log) {
      const ticks = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power)
        for (const factor of high / low > 1000 ? [1] : [1, 2, 5]) {
          const tick = factor * 10 ** power;
          if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
        }
      return ticks;
    }
    const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough * 0.999);
    const ticks = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; ++k) ticks.push(k * step);
    return ticks;
  };
  const scaleOf = (plot) => {
    const [left, top, right, bottom] = plot.box;
    const good = (y) => Number.isFinite(y) && (!knobs.log || y > 0);
    const ys = plot.series.flatMap((one) => [...one.points.map((p) => p[1]), ...(one.band || []).flatMap((p) => [p[1], p[2]])]).filter(good);
    const xs = plot.series.flatMap((one) => one.points.map((p) => p[0]));
    let low = Math.min(...ys), high = Math.max(...ys), first = Math.min(...xs), last = Math.max(...xs);
    if (low === high) [low, high] = knobs.log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
    if (first === last) [first, last] = [first - 0.5, last + 0.5];
    const on = knobs.log ? Math.log : (y) => y;
    return { left, top, right, bottom, low, high, good,
             x: (x) => left + (x - first) / (last - first) * (right - left),
             y: (y) => bottom - (on(Math.max(y, knobs.log ? low : -Infinity)) - on(low)) / (on(high) - on(low)) * (bottom - top) };
  };
  const svg = (name, attributes, content) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (content !== undefined) element.textContent = content;
    return element;
  };
  const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  const draw = (figure) => {
    const plot = plotOf(figure), to = scaleOf(plot), picture = figure.querySelector("svg");
    if (!(to.low <= to.high)) return;
    for (const old of picture.querySelectorAll(".y, .drawn")) old.remove();
    const line = (points, more) => picture.append(svg("path", { d: path(points), fill: "none", class: "drawn", "stroke-linejoin": "round", ...more }));
    for (const tick of ticksOf(to.low, to.high)) {
      line([[to.left, to.y(tick)], [to.right, to.y(tick)]], { stroke: "currentColor", "stroke-opacity": 0.15 });
      picture.append(svg("text", { x: to.left - 8, y: to.y(tick) + 4, "text-anchor": "end", fill: "currentColor", class: "drawn" }, text(tick)));
    }
    for (const one of plot.series) {
      const on = (points) => points.filter((p) => to.good(p[1])).map(([x, y]) => [to.x(x), to.y(y)]);
      const band = (one.band || []).filter((p) => to.good(p[2]));
      if (band.length > 1)
        picture.append(svg("path", { class: "drawn", fill: one.colour, "fill-opacity": 0.16,
                                     d: path([...band.map((p) => [to.x(p[0]), to.y(p[2])]), ...band.reverse().map((p) => [to.x(p[0]), to.y(p[1])])]) + "Z" }));
      const look = { stroke: one.colour, ...(one.dash ? { "stroke-dasharray": one.dash } : {}) };
      if (knobs.smooth > 0) line(on(one.points), { ...look, "stroke-width": 1, "stroke-opacity": 0.3 });
      line(on(knobs.smooth > 0 ? smoothed(one.points.filter((p) => Number.isFinite(p[1])), knobs.smooth) : one.points), { ...look, "stroke-width": 2 });
    }
  };
  const changed = () => knobs.smooth > 0 || knobs.log;
  const drawAll = () => { for (const figure of document.querySelectorAll("figure[data-plot]")) draw(figure); };
  for (const box of document.querySelectorAll(".knobs")) {
    box.hidden = false;
    box.querySelector("[name=smooth]").value = knobs.smooth;
    box.querySelector("[name=log]").checked = knobs.log;
    box.addEventListener("input", (event) => {
      if (event.target.name === "smooth") knobs.smooth = Number(event.target.value);
      if (event.target.name === "log") knobs.log = event.target.checked;
      try {
        sessionStorage.setItem("rivulet-knobs", JSON.stringify(knobs));
      } catch { /* as above */ }
      drawAll();
    });
  }
  if (changed()) drawAll();
  const point = (figure, event) => {
    const plot = plotOf(figure), to = scaleOf(plot), picture = figure.querySelector("svg"), place = picture.getBoundingClientRect();
    const scale = place.width / picture.viewBox.baseVal.width, at = (event.clientX - place.left) / scale;
    let x = null;
    for (const one of plot.series)
      for (const [px] of one.points) if (x === null || Math.abs(to.x(px) - at) < Math.abs(to.x(x) - at)) x = px;
    leave(figure);
    const mark = svg("g", { class: "pointed" });
    mark.append(svg("path", { d: path([[to.x(x), to.top], [to.x(x), to.bottom]]), stroke: "currentColor", "stroke-opacity": 0.4 }));
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.append(`${plot.x} ${text(x)}`);
    for (const one of plot.series) {
      const found = (knobs.smooth > 0 ? smoothed(one.points, knobs.smooth) : one.points).find((p) => p[0] === x);
      if (!found || !to.good(found[1])) continue;
      mark.append(svg("circle", { cx: to.x(x), cy: to.y(found[1]), r: 3.5, fill: one.colour }));
      const row = document.createElement("div"), band = (one.band || []).find((p) => p[0] === x);
      row.textContent = `${plot.series.length > 1 ? one.label + ": " : ""}${text(found[1])}${band ? " ± " + text((band[2] - band[1]) / 2) : ""}`;
      tip.append(row);
    }
    picture.append(mark);
    figure.querySelector(".plot").append(tip);
    const side = to.x(x) * scale;
    tip.style.top = "0";
    if (side > place.width / 2) tip.style.right = `${place.width - side + 8}px`; else tip.style.left = `${side + 8}px`;
  };
  const leave = (figure) => { for (const old of figure.querySelectorAll(".pointed, .tip")) old.remove(); };
  document.addEventListener("pointermove", (event) => {
    const plot = event.target.closest?.(".plot"), figure = plot?.closest("figure[data-plot]");
    for (const other of document.querySelectorAll("figure[data-plot]")) if (other !== figure && other.querySelector(".tip")) leave(other);
    if (figure) point(figure, event);
  });

  // Choices of a list count at once.
  for (const choice of document.querySelectorAll(".tools select")) choice.addEventListener("change", () => choice.form.requestSubmit());
  showTimes(document);

  // A page that is loaded again forgets what was ticked and typed.
  const busy = () => document.querySelector("input[type=checkbox][name=run]:checked, .tip, details[open]") ||
                     document.activeElement?.matches("input, select");
  if (document.body.dataset.again)
    setInterval(() => { if (!busy()) location.reload(); }, 1000 * document.body.dataset.again);

  // A run that goes on: what the feed sends is made by the server whole, and is put in its places.
  const link = document.getElementById("live-link");
  if (!link) return;
  // What the page says of the whole run is read from the history, now and then.
  let timer = null;
  const renewCards = async () => {
    timer = null;
    const cards = document.getElementById("cards");
    if (!cards) return;
    const answer = await fetch(location.href).catch(() => null);
    if (!answer || !answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("cards");
    if (fresh) cards.innerHTML = fresh.innerHTML;
  };
  const feed = new EventSource(link.dataset.feed);
  feed.addEventListener("show", (event) => {
    const shown = JSON.parse(event.data);
    for (const [id, html] of Object.entries(shown.places)) {
      const place = document.getElementById(id);
      if (!place) continue;
      place.innerHTML = html;
      showTimes(place);
      if (changed()) for (const figure of place.querySelectorAll("figure[data-plot]")) draw(figure);
    }
    link.textContent = "live";
    if (timer === null) timer = setTimeout(renewCards, 5000);
    if (shown.closed) link.dataset.delay = Date.now() - shown.closed;
  });
  feed.addEventListener("end", () => {
    feed.close();
    clearTimeout(timer);
    link.textContent = "ended";
  });
  feed.addEventListener("error", () => {
    link.textContent = feed.readyState === EventSource.CLOSED ? "not live: load the page again" : "no answer; trying again";
  });
})();
)js";
}

}  // namespace rivulet
