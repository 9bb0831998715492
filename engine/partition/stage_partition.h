// Pass: which pipeline stage runs which op, and the transfers between stages (stage_cutter.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/graph/graph.h"
#include "engine/plan/plan.h"

namespace trainyard {

struct StagedGraph {
  Graph graph;  // with load, slice, send (the transfer; forward half) and all_gather ops
  Indexed<OpId, std::int32_t> stage;  // for a transfer the receiving stage
  Indexed<OpId, std::int32_t> from;   // for a transfer the sending one; -1: the op is none
  int num_stages = 1;
};

/// Why `staged` is not well-formed, as find_violation() of its graph, or because an op has no
/// stage; empty when it is. Before partition_stages() no op has one.
std::string find_staged_violation(const StagedGraph& staged);

/// First layer of each stage, and num_layers at the end: uniform as `partition` says (contract, key
/// `partition: uniform`), or its cuts, all of them by layer. Infeasible when some stage would get
/// nothing.
///   plain:          L / stages layers each
///   ends:           (L + 2) / stages units each, embedding and head counting as one
///   uneven:         ceil(L / stages) each, what is left on the last
///   uniform-floor:  floor(L / stages) each, and one more on the first L mod stages
std::variant<std::vector<std::int64_t>, Infeasible> layer_ranges(std::int64_t num_layers,
                                                                 int num_stages,
                                                                 const PartitionConfig& partition);

/// The op at which `cut` begins a stage; kNoIndex: there is none.
OpId op_of_cut(const Graph& graph, const StageCut& cut);

/// [op]: whether a stage may begin there: not within the core of an attention, whose ops (blocks of
/// keys, scores, heads as views) stay together.
Indexed<OpId, bool> stage_begins(const Graph& graph);

/// [op]: whether it reads a trained parameter that no op before it reads: each stage has such an
/// op, so that it has something to update.
Indexed<OpId, bool> own_parameters(const Graph& graph);

/// A way to say that a stage begins at `op` which op_of_cut() understands: its layer, the module
/// furthest up whose first op it is, or what it writes; nullopt: there is none.
std::optional<StageCut> cut_at(const Graph& graph, OpId op);

/// The ranks among which what is sent is cut, where they hold it alike; one: nothing is cut. As one
/// dim, which moves nothing; or by its last dim, of which each row has a piece.
struct ScatterGather {
  Axes axes;
  std::int64_t ranks = 1;
  bool last_dim = false;
  friend bool operator==(const ScatterGather&, const ScatterGather&) = default;
};

/// `turning_stage`: lives on the rank of the stage before it, so that no transfer is between the
/// two (turning_stage() in engine/schedule/stage_form.h); -1: none does.
std::variant<StagedGraph, Infeasible> partition_stages(Graph graph, int num_stages,
                                                       const PartitionConfig& partition,
                                                       const ScatterGather& scatter,
                                                       std::int32_t turning_stage = -1);

}  // namespace trainyard
