#include "real/parameters/packed_rows.h"

#include <algorithm>
#include <set>

#include "engine/base/error.h"

namespace trainyard {

std::vector<PackedRows> packed_runs(const Program& program, ValueId bucket, std::int64_t ranks) {
  const std::int64_t elements = num_elements(program.values[bucket].dims);
  std::set<std::int64_t> borders = {0, elements};
  for (const Value& value : program.values) {
    const bool in = value.alias && value.alias->in == bucket;
    if (in && value.alias->own_shard == kNoIndex) borders.insert(value.alias->offset);
  }
  std::vector<PackedRows> runs;
  for (auto begin = borders.begin(); std::next(begin) != borders.end(); ++begin) {
    const std::int64_t size = (*std::next(begin) - *begin) / ranks;
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      runs.push_back({*begin + rank * size, rank * (elements / ranks) + *begin / ranks, size});
  }
  return runs;
}

std::vector<WeightPiece> pieces_in_shards(const std::vector<WeightPiece>& pieces,
                                          const std::vector<PackedRows>& runs) {
  std::vector<WeightPiece> out;
  for (const WeightPiece& whole : pieces) {
    for (std::int64_t row = 0; row < whole.rows;) {
      const std::int64_t at = whole.offset + row * whole.columns;
      const auto behind = std::upper_bound(
          runs.begin(), runs.end(), at,
          [](std::int64_t place, const PackedRows& run) { return place < run.in_bucket; });
      check(behind != runs.begin(), "runs begin with the bucket");
      const PackedRows& run = *std::prev(behind);
      WeightPiece piece = whole;
      piece.first_row = whole.first_row + row;
      piece.rows = std::min(whole.rows - row, (run.in_bucket + run.size - at) / whole.columns);
      check(piece.rows > 0, "ranks have whole rows");
      piece.offset = run.packed + at - run.in_bucket;
      row += piece.rows;
      out.push_back(std::move(piece));
    }
  }
  return out;
}

}  // namespace trainyard
