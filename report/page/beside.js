// Two timelines of the same ranks as one: of each rank the measured row, then the simulated one. Each side keeps
// tables of its own, one behind the other in those of the whole, so that no op of one side is taken for the other's
// peer.
function besideEachOther(measured, simulated) {
  const tables = ["names", "modules", "segments", "groups", "patterns"];
  const first = Object.fromEntries(tables.map((key) => [key, measured[key].length]));
  const moved = (numbers, by) => numbers.map((number) => (number < 0 ? number : number + by));
  for (const pattern of simulated.patterns) {
    // A box for several ops has no name; its module is their number.
    pattern.module = pattern.module.map((m, i) => (m < 0 || pattern.name[i] < 0 ? m : m + first.modules));
    pattern.name = moved(pattern.name, first.names);
    pattern.group = moved(pattern.group, first.groups);
  }
  for (const rank of simulated.ranks) {
    const {calls} = rank;
    calls.segment = moved(calls.segment, first.segments);
    calls.pattern = moved(calls.pattern, first.patterns);
    calls.find = new Map(Array.from(calls.segment, (segment, i) => [segment + "," + calls.microbatch[i], i]));
    rank.segmentsByName =
        new Map(Array.from(rank.segmentsByName, ([name, all]) => [name, all.map((i) => i + first.segments)]));
    rank.side = "simulated";
  }
  for (const rank of measured.ranks) rank.side = "measured";
  const whole = {...measured, end: Math.max(measured.end, simulated.end)};
  for (const key of tables) whole[key] = measured[key].concat(simulated[key]);
  whole.leftOut = Object.fromEntries(
      Object.keys(measured.leftOut).map((key) => [key, measured.leftOut[key] + simulated.leftOut[key]]));
  whole.ranks = measured.ranks.flatMap((rank) => [rank, ...simulated.ranks.filter((other) => other.rank === rank.rank)]);
  return whole;
}
