// One entry per op kind: its index space.
//
// The names are those of OpKind (engine/graph/op_kind.h), and of kinds that no graph has yet. From
// an entry follow local shapes, which results are partial, which dims may be split, every strategy
// on every mesh, and the specs of the backward.
#pragma once

#include <span>

#include "engine/sharding/index_space.h"

namespace trainyard {

enum class OpRole : std::uint8_t {
  kCompute,  // has an index space
  kMove,     // a redistribution or a transfer: move.h
  kOrder,    // holds no value of its own: frees
};

/// What an op is told beside its operands.
struct OpParameters {
  std::vector<int> dims;            // permute: the order; sum: which are summed
  Extents to;                       // view: the new extents
  std::vector<std::int64_t> sizes;  // split: of the parts
  int dim = 0;                      // split, join, concat, narrow, pieces, roll
  bool keepdim = false;             // sum
  IndexExtents extents;             // of indices that shapes do not say
};

struct OpIndexEntry {
  std::string_view name;
  OpRole role = OpRole::kCompute;
  std::string_view text;  // "": made by `make` from what the op is told
  bool linear = false;
  bool maximum = false;
  std::variant<std::string, Infeasible> (*make)(const std::vector<Extents>& operands,
                                                const OpParameters& parameters) = nullptr;
};

std::span<const OpIndexEntry> op_index_table();
const OpIndexEntry* find_op(std::string_view name);  // nullptr: no such kind

/// The index space of one op; `name` is in the table and computes.
std::variant<IndexSpace, Infeasible> index_space(std::string_view name,
                                                 const std::vector<Extents>& operands,
                                                 const OpParameters& parameters = {});

// Spaces of kinds whose dims depend on what they are told: affine_spaces.cpp.
std::variant<std::string, Infeasible> permute_space(const std::vector<Extents>& operands,
                                                    const OpParameters& parameters);
std::variant<std::string, Infeasible> view_space(const std::vector<Extents>& operands,
                                                 const OpParameters& parameters);
std::variant<std::string, Infeasible> split_space(const std::vector<Extents>& operands,
                                                  const OpParameters& parameters);
std::variant<std::string, Infeasible> concat_space(const std::vector<Extents>& operands,
                                                   const OpParameters& parameters);
std::variant<std::string, Infeasible> narrow_space(const std::vector<Extents>& operands,
                                                   const OpParameters& parameters);
std::variant<std::string, Infeasible> sum_space(const std::vector<Extents>& operands,
                                                const OpParameters& parameters);
std::variant<std::string, Infeasible> pieces_space(const std::vector<Extents>& operands,
                                                   const OpParameters& parameters);
std::variant<std::string, Infeasible> roll_space(const std::vector<Extents>& operands,
                                                 const OpParameters& parameters);

}  // namespace trainyard
