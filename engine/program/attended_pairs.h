// How many keys the queries of an attention see where that is not alike on all ranks, or in all
// microbatches: the symbol of work that the op's attributes say (`rank_work`, `documents`), and
// what each call on each rank binds it to.
//
// A query sees the keys that are not behind it, no further back than the window, in its own
// document alone. All of it follows from places in the sequence: of the rank's queries, of the keys
// that are there, and of the borders between documents, which the number of a sample decides.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "engine/program/program.h"
#include "engine/sharding/spec_boxes.h"

namespace trainyard {

/// Whether the work of an op is a symbol.
inline bool binds_work(OpKind kind, const OpAttrs& attrs) {
  if (kind != OpKind::kFlashAttention && kind != OpKind::kBlockAttention) return false;
  return attrs.rank_work || attrs.documents;
}

/// What hides keys from queries, but for documents.
struct AttentionMask {
  bool causal = true;
  std::int64_t attended = 0;  // causal: keys that a query sees, the latest; 0: all
};

/// Pairs of a query and a key that it sees, of a sequence in one piece. By counting: of queries
/// [a, b) and keys [c, d) those with key <= query, less those with key <= query - attended.
std::int64_t attended_pairs(IndexRange queries, IndexRange keys, const AttentionMask& mask);
/// The same of a sequence of documents; `borders` as document_borders() has them.
std::int64_t attended_pairs(const IndexRanges& queries, const IndexRanges& keys,
                            const AttentionMask& mask, const std::vector<std::int64_t>& borders);

/// Counts for ops whose work is a symbol: pairs of one head, in all samples of a microbatch.
class AttendedPairs {
 public:
  /// `program` must outlive it.
  explicit AttendedPairs(const Program& program) : program_(program) {}

  /// What a call for microbatch `mb` binds it to on the rank at `at`.
  std::int64_t operator()(const ProgramOp& op, const Coordinate& at, Microbatch mb);
  /// The mean over ranks and microbatches of as many samples.
  double mean(const ProgramOp& op);
  /// The axes whose coordinates decide it.
  Axes axes(const ProgramOp& op) const;
  /// Whether it depends on the sample.
  bool is_drawn(const ProgramOp& op) const;

 private:
  ValueId queries(const ProgramOp& op) const;
  ValueId keys(const ProgramOp& op) const;
  const std::vector<std::int64_t>& borders(std::int64_t sample);

  const Program& program_;
  std::map<std::int64_t, std::vector<std::int64_t>> borders_;  // by sample
  // By what a mean depends on: attributes, and the specs and extents of queries and keys.
  std::map<std::tuple<AttrId, SpecId, std::int64_t, std::int64_t, std::int64_t>, double> means_;
};

}  // namespace trainyard
