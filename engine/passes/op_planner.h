// What planners share: the walk over a graph's ops, in their order, that splits each as a method's
// rules say and stores what it makes.
//
// A method says how an op uses axes, and how a result whose summands are added up at once is
// stored; the walk does the rest: batches, parameters (stored as they are first used), what does
// not divide, and what is expanded to be split.
//
//   cross entropy over a split vocabulary   largest logits, sums of exponentials, the loss
//   a norm over split features              moments of the rows, then the norm by them
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/passes/sharding.h"

namespace trainyard {

/// What rules see: the ops before the one at hand are planned.
struct PlannedOps {
  const Graph& graph;
  const Sharding& sharding;
  const Indexed<TensorId, int>& batch_dims;  // -1: none

  const Tensor& tensor(TensorId id) const { return graph.tensors[id]; }
  bool is_parameter(TensorId id) const { return tensor(id).role == TensorRole::kParameter; }
  const TensorSpec& spec(TensorId id) const { return sharding.specs[sharding.stored[id]]; }
  SplitHint hint(TensorId id) const;
};

/// A dim of an activation, and those of some axes that split it.
struct SplitDim {
  int dim;
  Axes axes;
};
/// The first dim that some of `axes` split, and which; nullopt: none.
std::optional<SplitDim> dim_split_over(const TensorSpec& spec, AxisSet axes);

int index_named(const IndexSpace& space, std::string_view name);
/// The outermost index of a dim.
int index_of_dim(const IndexedTensor& operand, int dim);

struct MadeSpec {
  TensorSpec spec;     // without the summands over the tensor axes
  AxisSet summed = 0;  // of these axes
};

struct SplitRules {
  Axes data;    // late: each op splits its batch over them
  Axes tensor;  // all that layers are split over
  bool norms_by_moments = false;
  /// Results of unlike marks are treated apart, as are ops that `splits` treats so; layers repeat,
  /// and are split alike where these are alike.
  std::function<std::int64_t(TensorId)> mark;
  /// How an op uses the axes other than the data's, in any order; they cut finer than the data's.
  std::function<std::vector<IndexSplit>(const PlannedOps&, const Op&, const IndexSpace&)> splits;
  /// As what a result is stored, whose summands over tensor axes are added up at once.
  std::function<TensorSpec(const PlannedOps&, const Op&, std::size_t result, MadeSpec made)> stored;
  /// Ranks along tensor axes that have samples of their own: how inputs lie, and ops for which
  /// `by_samples` is true. Empty: all have a replica's.
  Axes sample_axes = {};
  std::function<bool(const Op&)> by_samples = {};
  /// Tensor axes over which an op splits its batch behind the data's, or is entered where it has
  /// none; inputs of the model are loaded whole by all their ranks. Empty: no tensor axes.
  std::function<Axes(const PlannedOps&, const Op&)> batch = {};
  /// As what a parameter is stored that an op uses so first; what differs is moved within every
  /// microbatch (moved_parameters.h). Empty: as it is used.
  std::function<TensorSpec(const PlannedOps&, const Op&, std::size_t input, TensorSpec used)>
      stored_parameter = {};
  /// What says how the op is split, to be blamed where that does not divide. Empty:
  /// parallel.tensor.
  std::function<std::string(const Op&)> key = {};
  bool several_dims = false;  // of one activation may be split over tensor axes
};

/// `sharding`: its mesh, late and zig-zag axes. Infeasible, at the rules' key, where a dimension
/// does not divide.
std::variant<PlannedGraph, Infeasible> plan_ops(Graph graph, Sharding sharding,
                                                const SplitRules& rules);

}  // namespace trainyard
