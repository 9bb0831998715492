// Making elements, reading the theme's colours, hatches, ticks.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style")
      made.style.cssText = value;
    else if (name.startsWith("on"))
      made.addEventListener(name.slice(2), value);
    else if (value === true)
      made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined)
      made.setAttribute(name, value);
  }
  for (const child of children.flat()) made.append(child);
  return made;
}

function svgElement(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  for (const child of children.flat()) made.append(child);
  return made;
}

const byId = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// Hatches, so that colour is never the only sign: 0 none, 1 to 3 lines of different slopes.
function hatched(background, hatch) {
  const line = "var(--hatch)";
  const lines = [
    "",
    `repeating-linear-gradient(45deg, ${line} 0 2px, transparent 2px 7px)`,
    `repeating-linear-gradient(-45deg, ${line} 0 2px, transparent 2px 7px)`,
    `repeating-linear-gradient(90deg, ${line} 0 2px, transparent 2px 6px)`,
  ][hatch];
  return "background:" + (lines ? lines + "," : "") + background;
}

const swatch = (background, hatch = 0) => element("span", {class: "swatch", style: hatched(background, hatch)});

// Round steps so that about `count` ticks lie in [from, to].
function niceStep(from, to, count) {
  const raw = (to - from) / Math.max(1, count);
  if (!(raw > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  for (const factor of [1, 2, 5])
    if (factor * power >= raw * 0.999) return factor * power;
  return 10 * power;
}
function ticksBetween(from, to, step) {
  const ticks = [];
  for (let tick = Math.ceil(from / step - 1e-9) + 0; tick * step <= to * (1 + 1e-12); ++tick)
    ticks.push(tick * step + 0);
  return ticks;
}
// A round step of bytes: powers of two times 1, 2, 4, ...
function niceByteStep(to, count) {
  let step = 1;
  while (step * count < to) step *= 2;
  return step;
}

// The first index whose value is at least `limit`, in an ascending array.
function lowerBound(values, limit) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < limit)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

function sizedCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = height + "px";
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

// Figures that depend on the theme or the width are drawn again when these change.
const redraws = [];
let redrawAsked = false;
function redrawAll() {
  if (redrawAsked) return;
  redrawAsked = true;
  requestAnimationFrame(() => {
    redrawAsked = false;
    for (const redraw of redraws) redraw();
  });
}
