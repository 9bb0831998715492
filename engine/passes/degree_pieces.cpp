#include "engine/passes/degree_pieces.h"

#include <algorithm>

namespace trainyard {

namespace {

/// Ascending, in the first turn in which neither rank has another piece.
class Turns {
 public:
  Turns(std::size_t from, std::size_t to) : from_(from), to_(to) {}

  std::size_t next(std::int32_t from, std::int32_t to) {
    std::size_t turn = 0;
    while (is_busy(from_[from], turn) || is_busy(to_[to], turn)) ++turn;
    from_[from].push_back(turn);
    to_[to].push_back(turn);
    return turn;
  }

 private:
  static bool is_busy(const std::vector<std::size_t>& turns, std::size_t turn) {
    return std::find(turns.begin(), turns.end(), turn) != turns.end();
  }
  Numbered<std::vector<std::size_t>> from_, to_;
};

bool all_have_all(const DegreeRuns& runs) {
  return std::all_of(runs.begin(), runs.end(),
                     [&](const IndexRanges& run) { return run == runs.front(); });
}

}  // namespace

std::variant<DegreeRuns, Infeasible> runs_along(const Program& program, const Value& value,
                                                AxisId axis, std::int32_t ranks) {
  const TensorSpec spec = spec_of(program, value);
  const std::int64_t elements = num_elements(value.dims);
  const auto refused = [&](const char* why) {
    return Infeasible{value.name + ", which goes to ranks of another degree, " + why, {}};
  };
  if (has(spec.partial, axis)) return refused("is summands of theirs");
  if (holder(spec, axis)) return refused("is held by one of them");
  const auto dim = dim_of(spec, axis);
  if (!dim) return DegreeRuns(ranks, IndexRanges{{0, elements}});
  const DimSplit& split = spec.dims.begin()[*dim];
  const DimPart& part = split.parts.front();
  const std::int64_t counted = part.count * part.unit;
  if (split.parts.size() > 1 || part.reversed || !split.after.empty() || part.axes.back() != axis ||
      (counted > 0 && counted % group_size(program.mesh, part.axes) != 0))
    return refused("is not cut into equal pieces");
  std::int64_t outer = 1;
  for (std::int32_t d = 0; d < *dim; ++d) outer *= value.dims.begin()[d].expected;
  const std::int64_t run = elements / outer;
  DegreeRuns out(ranks);
  for (const std::int64_t rank : out.keys()) {
    for (std::int64_t o = 0; o < outer; ++o) {
      const std::int64_t begin = (o * ranks + rank) * run;
      out[rank].push_back({begin, begin + run});
    }
  }
  return out;
}

std::vector<DegreePiece> pieces_between(const DegreeRuns& from, const DegreeRuns& to) {
  std::vector<DegreePiece> out;
  Turns turns(from.size(), to.size());
  const auto senders = static_cast<std::int32_t>(from.size());
  const bool any_holder = all_have_all(from) && from.size() != to.size();
  for (std::int32_t j = 0; j < std::ssize(to); ++j) {
    for (const IndexRange& needed : to[j]) {
      for (std::int32_t i = 0; i < senders; ++i) {
        if (any_holder ? i != j % senders : from.size() == to.size() && i != j) continue;
        for (const IndexRange& has : from[i]) {
          const IndexRange both{std::max(has.begin, needed.begin), std::min(has.end, needed.end)};
          if (both.begin < both.end) out.push_back({i, j, both, turns.next(i, j)});
        }
      }
    }
  }
  return out;
}

std::int64_t place_in_runs(const IndexRanges& runs, std::int64_t element) {
  std::int64_t before = 0;
  for (const IndexRange& run : runs) {
    if (run.begin <= element && element < run.end) return before + element - run.begin;
    before += run.size();
  }
  bug("an element that the rank does not have");
}

ReplicaPairs pairs_of_turn(const std::vector<DegreePiece>& pieces, std::size_t turn) {
  ReplicaPairs out;
  for (const DegreePiece& piece : pieces) {
    if (piece.turn == turn) out.emplace_back(piece.from, piece.to);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace trainyard
