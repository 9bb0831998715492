// What an op computes, as far as splitting it goes: which index of its loops each dim of its
// operands and results runs over.
//
//     ... i, o i + o? -> ... o             a product of two operands, and a further term, which may
//     be left out b s [g r e! | g e! | g e!] -> b s (g r e!)    parts of a dim; a group (g r e) is
//     one dim d0 [p q | q] -> d0 p q | d0 q        results by part;  a | b -> [a | b]: operands by
//     part
//     ... h* -> ... h* ; ...               two results
//
// Commas part factors of a product, + its terms. `...` stands for as many indices as an operand has
// dims left, aligned at the last where operands are broadcast; `_` is a dim of one element; i=4
// says an extent. Whole indices of results alone, of which nobody says the extent, have 1: specs do
// not depend on it. An index is free; whole (i!): never split; or exchanged (i*): split only by an
// expansion that the kind brings along. `~` in front of a part: its first index runs backwards.
// `=v` behind a result: all ranks compute it alike, though v, which it lacks, is split.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/indexed.h"
#include "engine/sharding/tensor_spec.h"

namespace trainyard {

enum class IndexUse : std::uint8_t { kFree, kWhole, kExchanged };

struct OpIndex {
  std::string name;
  IndexUse use = IndexUse::kFree;
  std::int64_t extent = 1;
};

/// One part of a dim: indices of a group, the first slowest; none: one element.
struct IndexGroup {
  std::vector<int> indices;
  bool reversed = false;
};
using IndexedDim = std::vector<IndexGroup>;  // its parts

struct IndexedTensor {
  std::vector<IndexedDim> dims;
  int term = 0;            // operands: of which term they are a factor
  int part = -1;           // the part of the others' packed dim that it is, or all
  std::vector<int> alike;  // results: indices that they do not sum over
};

/// Extents of indices that shapes alone do not say: heads, parts.
using IndexExtents = std::map<std::string, std::int64_t>;

/// An op kind's index space for operands of given extents.
struct IndexSpace {
  Numbered<OpIndex> indices;
  std::vector<IndexedTensor> operands;
  std::vector<IndexedTensor> results;
  bool linear = false;   // in each factor by itself: summands may pass
  bool maximum = false;  // results are the largest over the indices that they lack

  Extents extents_of(const IndexedTensor& tensor) const;
  std::int64_t extent_of(const IndexGroup& group) const;
};

/// Reads `text` for operands of these extents. Infeasible where they do not suit it.
std::variant<IndexSpace, Infeasible> read_index_space(std::string_view text,
                                                      const std::vector<Extents>& operands,
                                                      const IndexExtents& known = {});

}  // namespace trainyard
