#include "tests/support/random_sharding.h"

#include <algorithm>
#include <random>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/graph/op_space.h"
#include "engine/graph/op_table.h"
#include "engine/sharding/normal_form.h"

namespace trainyard {

namespace {

class RandomPlanner {
 public:
  RandomPlanner(std::uint64_t seed, const RandomSharding& options, const Graph& graph,
                Sharding& sharding)
      : random_(seed),
        options_(options),
        graph_(graph),
        sharding_(sharding) {
    sharding_.stored.assign(graph.tensors.size(), kNoIndex);
    sharding_.uneven = options.uneven;
  }

  bool run() {
    for (const TensorId id : graph_.tensors.keys()) {
      if (graph_.tensors[id].role == TensorRole::kInput) store(id, random_spec(id, false));
    }
    for (const Op& op : graph_.ops) {
      if (!add(op)) return false;
    }
    return true;
  }

 private:
  int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }
  bool is_parameter(TensorId id) const { return graph_.tensors[id].role == TensorRole::kParameter; }
  const TensorSpec& spec(SpecId id) const { return sharding_.specs[id]; }
  Extents extents_of(TensorId id) const {
    const Shape& shape = graph_.tensors[id].shape;
    return Extents(shape.begin(), shape.end());
  }

  void store(TensorId id, const TensorSpec& spec) {
    sharding_.stored[id] = sharding_.specs.add(normal_form(spec, extents_of(id), sharding_.mesh));
  }
  bool divides(TensorId id, const TensorSpec& spec) const {
    const Tensor& t = graph_.tensors[id];
    return std::holds_alternative<Shape>(local_shape(t.name, t.shape, spec, sharding_));
  }

  TensorSpec random_spec(TensorId id, bool summands) {
    const Tensor& t = graph_.tensors[id];
    for (;;) {
      TensorSpec out = replicated_spec(t.shape.size());
      for (const AxisId axis : sharding_.mesh.axis_ids()) {
        if (sharding_.mesh.axes[axis].stages) continue;
        const int use = draw(-4, static_cast<int>(t.shape.size()) * 2 - 1);
        if (use >= 0) {
          Axes& axes = out.dims.begin()[use / 2].parts.front().axes;
          axes.insert(chance(0.5) ? axes.begin() : axes.end(), axis);
        } else if (summands && use == -1) {
          set_state(out, axis, AxisState::kPartial);
        } else if (summands && use == -2 && t.needs_gradient) {
          set_state(out, axis, AxisState::kEntered);
        }
      }
      if (divides(id, out)) return out;
    }
  }

  /// Whether the op can be split so, all ranks having as much, each parameter used in one way.
  bool fits(const Op& op, const SplitOp& split) const {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const TensorId id = op.inputs[i];
      const TensorSpec& wanted = spec(split.operands[i]);
      if (!divides(id, wanted)) return false;
      if (!is_parameter(id)) continue;
      if (wanted.partial != 0) return false;
      for (const DimSplit& dim : wanted.dims) {  // buckets are reduced as one
        if (axes_in(dim) != axes_of_all_parts(dim)) return false;
      }
      for (const auto& [parameter, used] : used_) {
        if (parameter == id && used != split.operands[i]) return false;
      }
      for (std::size_t k = 0; k < i; ++k) {
        if (op.inputs[k] == id && split.operands[k] != split.operands[i]) return false;
      }
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const TensorSpec& made = spec(split.results[i]);
      if (!divides(op.outputs[i], made)) return false;
      // A loss that ranks have alike starts a gradient once.
      if (is_mean_loss(op.kind) && made.entered != 0) return false;
    }
    return true;
  }

  bool add(const Op& op) {
    std::vector<Extents> operands;
    for (const TensorId input : op.inputs) operands.push_back(extents_of(input));
    const auto found = op_space(graph_, op, operands);
    check(std::holds_alternative<IndexSpace>(found), "an op of a random graph has an index space");
    const auto& space = std::get<IndexSpace>(found);
    std::vector<Strategy> all = all_strategies(space, sharding_.mesh, 400);
    std::shuffle(all.begin(), all.end(), random_);
    for (const Strategy& strategy : all) {
      auto split = split_op(graph_, op, space, strategy, sharding_);
      if (auto* made = std::get_if<SplitOp>(&split); made != nullptr && fits(op, *made)) {
        keep(op, std::move(*made));
        return true;
      }
    }
    return false;
  }

  void keep(const Op& op, SplitOp split) {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const TensorId id = op.inputs[i];
      if (!is_parameter(id) || sharding_.stored[id] != kNoIndex) continue;
      TensorSpec stored = spec(split.operands[i]);
      stored.entered = 0;
      sharding_.stored[id] = sharding_.specs.add(stored);
      used_.emplace_back(id, split.operands[i]);
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const TensorId id = op.outputs[i];
      sharding_.stored[id] = split.results[i];
      if (id != graph_.loss && chance(0.6)) store(id, random_spec(id, options_.summands));
    }
    sharding_.ops.push_back(sharding_.splits.add(std::move(split)));
  }

  std::mt19937_64 random_;
  RandomSharding options_;
  const Graph& graph_;
  Sharding& sharding_;
  std::vector<std::pair<TensorId, SpecId>> used_;  // parameters
};

}  // namespace

bool plan_random_sharding(std::uint64_t seed, const RandomSharding& options, const Graph& graph,
                          Sharding& sharding) {
  return RandomPlanner(seed, options, graph, sharding).run();
}

}  // namespace trainyard
