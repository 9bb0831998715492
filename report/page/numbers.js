// Numbers with their units.
function trimmed(number, digits) { return number.toLocaleString("en-US", {maximumSignificantDigits: digits}); }

function formatSeconds(seconds, digits = 4) {
  const size = Math.abs(seconds);
  if (size < 5e-13) return "0 s";  // rounding of sums of seconds
  if (size >= 7200) return trimmed(seconds / 3600, digits) + " h";
  if (size >= 600) return trimmed(seconds / 60, digits) + " min";
  if (size >= 1) return trimmed(seconds, digits) + " s";
  if (size >= 1e-3) return trimmed(seconds * 1e3, digits) + " ms";
  if (size >= 1e-6) return trimmed(seconds * 1e6, digits) + " \u00b5s";
  return trimmed(seconds * 1e9, digits) + " ns";
}

// A place on an axis whose ticks are `step` seconds apart: all ticks have the unit and the digits of the step.
function formatTick(seconds, step) {
  const [unit, name] = step >= 1 ? [1, "s"] :
      step >= 1e-3               ? [1e-3, "ms"] :
      step >= 1e-6               ? [1e-6, "\u00b5s"] :
                                   [1e-9, "ns"];
  const digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  return (seconds / unit).toLocaleString("en-US", {maximumFractionDigits: digits, minimumFractionDigits: digits}) +
      " " + name;
}

function formatBytes(bytes, digits = 4) {
  const size = Math.abs(bytes);
  for (const [unit, name] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (size >= unit) return trimmed(bytes / unit, digits) + " " + name;
  }
  return trimmed(bytes, digits) + " B";
}

function formatCount(number, digits = 4) {
  const size = Math.abs(number);
  if (size >= 1e12) return trimmed(number / 1e12, digits) + " T";
  if (size >= 1e9) return trimmed(number / 1e9, digits) + " B";
  if (size >= 1e6) return trimmed(number / 1e6, digits) + " M";
  if (size >= 1e5) return trimmed(number / 1e3, digits) + " k";
  return trimmed(number, digits);
}

// Rates are decimal, as datasheets have them; amounts of bytes are binary.
function withPrefix(rate, unit, digits) {
  for (const [size, prefix] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (rate >= size) return trimmed(rate / size, digits) + " " + prefix + unit;
  }
  return trimmed(rate, digits) + " " + unit;
}
const formatFlopRate = (flopPerSecond, digits = 4) => withPrefix(flopPerSecond, "FLOP/s", digits);
const formatRate = (bytesPerSecond) => withPrefix(bytesPerSecond, "B/s", 4);
const ROUNDING = 1e-9;  // what sums leave of nothing, as a share of the whole
const formatShare = (share) => {
  const percent = share * 100;
  return (percent > 100 * ROUNDING && percent < 0.01 ? "< 0.01" : percent.toFixed(percent < 10 ? 2 : 1)) + " %";
};
const plural = (count, one, many = one + "s") => formatCount(count) + " " + (count === 1 ? one : many);
