#include "engine/program/attended_pairs.h"

#include <algorithm>

#include "engine/program/replica_samples.h"
#include "engine/program/row_positions.h"

namespace trainyard {

namespace {

/// The sum of min(max(x, 0), most) over x from `first` to `last`.
std::int64_t clamped_sum(std::int64_t first, std::int64_t last, std::int64_t most) {
  first = std::max<std::int64_t>(first, 1);
  if (last < first) return 0;
  const std::int64_t rising = std::min(last, most);  // the last x below the clamp
  std::int64_t sum = 0;
  if (rising >= first) sum += (first + rising) * (rising - first + 1) / 2;
  return sum + most * (last - std::max(rising, first - 1));
}

/// Pairs with key <= query + by.
std::int64_t pairs_up_to(IndexRange queries, IndexRange keys, std::int64_t by) {
  return clamped_sum(queries.begin + by + 1 - keys.begin, queries.end + by - keys.begin,
                     keys.size());
}

IndexRange shared(IndexRange a, IndexRange b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

}  // namespace

std::int64_t attended_pairs(IndexRange queries, IndexRange keys, const AttentionMask& mask) {
  if (queries.size() <= 0 || keys.size() <= 0) return 0;
  if (!mask.causal) return queries.size() * keys.size();
  const std::int64_t seen = pairs_up_to(queries, keys, 0);
  return mask.attended > 0 ? seen - pairs_up_to(queries, keys, -mask.attended) : seen;
}

std::int64_t attended_pairs(const IndexRanges& queries, const IndexRanges& keys,
                            const AttentionMask& mask, const std::vector<std::int64_t>& borders) {
  std::int64_t sum = 0;
  for (const IndexRange& query : queries) {
    for (const IndexRange& key : keys) {
      if (mask.causal && key.begin >= query.end) continue;
      if (borders.empty()) {
        sum += attended_pairs(query, key, mask);
        continue;
      }
      // Documents that both have some of.
      const std::int64_t from = std::max(query.begin, key.begin);
      auto next = std::upper_bound(borders.begin(), borders.end(), from);
      for (; next != borders.end(); ++next) {
        const IndexRange document{*std::prev(next), *next};
        if (document.begin >= query.end || document.begin >= key.end) break;
        sum += attended_pairs(shared(query, document), shared(key, document), mask);
      }
    }
  }
  return sum;
}

ValueId AttendedPairs::queries(const ProgramOp& op) const {
  return op.reads[op.part == OpPart::kForward ? 0 : 1].value;  // behind a gradient
}

ValueId AttendedPairs::keys(const ProgramOp& op) const {
  if (program_.attrs[op.attrs].packed) return queries(op);
  return op.reads[op.part == OpPart::kForward ? 1 : 2].value;
}

const std::vector<std::int64_t>& AttendedPairs::borders(std::int64_t sample) {
  const auto [it, fresh] = borders_.try_emplace(sample);
  const DocumentDraws& draws = *program_.documents;
  if (fresh) it->second = document_borders(draws.config, draws.length, sample);
  return it->second;
}

std::int64_t AttendedPairs::operator()(const ProgramOp& op, const Coordinate& at, Microbatch mb) {
  const OpAttrs& attrs = program_.attrs[op.attrs];
  const std::int32_t shifted_by = attrs.ring > 0 ? attrs.by : 0;
  const IndexRanges from = row_positions(program_, queries(op), at);
  const IndexRanges to = row_positions(program_, keys(op), at, shifted_by);
  const AttentionMask mask{attrs.causal, attrs.attended};
  const Value& q = program_.values[queries(op)];
  const std::int64_t samples = q.dims[0].expected;
  if (!attrs.documents) return samples * attended_pairs(from, to, mask, {});
  if (!is_drawn(op)) return samples * attended_pairs(from, to, mask, borders(0));
  const std::int64_t first =
      samples_of_rank(program_, queries(op), at, mb).begin + attrs.first_sample;
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < samples; ++i)
    sum += attended_pairs(from, to, mask, borders(first + i));
  return sum;
}

bool AttendedPairs::is_drawn(const ProgramOp& op) const {
  return program_.attrs[op.attrs].documents && program_.documents->config.vary();
}

Axes AttendedPairs::axes(const ProgramOp& op) const {
  const TensorSpec spec = spec_of(program_, program_.values[queries(op)]);
  Axes out = spec.dims.begin()[1].parts.front().axes;
  if (!is_drawn(op)) return out;
  const Axes& replicas = spec.dims.front().parts.front().axes;
  out.insert(out.end(), replicas.begin(), replicas.end());
  // Replicas of unlike numbers have other samples at each pipeline rank.
  const AxisId unlike = unlike_axis(program_.mesh);
  if (unlike != kNoAxis && has(set_of(replicas), unlike))
    out.insert(out.begin(), stage_axis(program_.mesh));
  return out;
}

double AttendedPairs::mean(const ProgramOp& op) {
  const Value& q = program_.values[queries(op)];
  const Value& kv = program_.values[keys(op)];
  const auto [it, fresh] = means_.try_emplace(
      {op.attrs, q.spec, q.dims[0].expected, q.dims[1].expected, kv.dims[1].expected});
  if (!fresh) return it->second;
  const Microbatch microbatches = is_drawn(op) ? program_.num_microbatches : 1;
  double sum = 0;
  std::int64_t count = 0;
  for (const Coordinate& at :
       group_at(program_.mesh, axes(op), uniform_coordinate(program_.mesh, 0))) {
    for (Microbatch mb = 0; mb < microbatches; ++mb) {
      // Those of its size: of halves, each has half of one.
      const std::int64_t size =
          is_drawn(op) ? samples_of_rank(program_, queries(op), at, mb).size() : 0;
      if (size != 0 && size != q.dims[0].expected && size != 2 * q.dims[0].expected) continue;
      sum += static_cast<double>((*this)(op, at, mb));
      ++count;
    }
  }
  return it->second = count == 0 ? 0 : sum / static_cast<double>(count);
}

}  // namespace trainyard
