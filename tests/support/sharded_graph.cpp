#include "tests/support/sharded_graph.h"

#include <algorithm>
#include <cmath>

#include "engine/sharding/spec_boxes.h"
#include "engine/sharding/spec_text.h"

namespace trainyard {

namespace {

int add_tensor(OpGraph& graph, const Extents& extents, bool is_input) {
  graph.tensors.push_back(extents);
  graph.is_input.push_back(is_input);
  return static_cast<int>(graph.tensors.size()) - 1;
}

void add_random_op(Random& random, OpGraph& graph) {
  constexpr const char* kKinds[] = {"linear", "linear",  "bmm",  "add",    "mul",  "tanh",
                                    "sum",    "permute", "view", "concat", "split"};
  GraphOp op;
  op.kind = kKinds[draw(random, 0, 10)];
  const int x = draw(random, 0, static_cast<int>(graph.tensors.size()) - 1);
  const Extents extents = graph.tensors[static_cast<std::size_t>(x)];
  if (extents.empty() || (op.kind == "bmm" && extents.size() != 3)) op.kind = "tanh";
  const int last = std::max(0, static_cast<int>(extents.size()) - 1);
  op.operands = {x};
  op.parameters.dim = draw(random, 0, last);
  const auto dim = static_cast<std::size_t>(op.parameters.dim);
  if (op.kind == "linear") {
    const std::int64_t o = draw(random, 1, 6);
    op.operands.push_back(add_tensor(graph, {o, extents.back()}, true));
    if (draw(random, 0, 1) == 0) op.operands.push_back(add_tensor(graph, {o}, true));
  } else if (op.kind == "bmm") {
    op.operands.push_back(add_tensor(graph, {extents[0], extents[2], draw(random, 1, 5)}, true));
  } else if (op.kind == "add" || op.kind == "mul") {
    Extents other(extents.begin() + draw(random, 0, last), extents.end());
    if (draw(random, 0, 2) == 0) other.front() = 1;
    op.operands.push_back(add_tensor(graph, other, true));
  } else if (op.kind == "concat") {
    Extents other = extents;
    other[dim] = draw(random, 1, 5);
    op.operands.push_back(add_tensor(graph, other, true));
  } else if (op.kind == "split") {
    if (extents[dim] < 2) return;
    const std::int64_t first = draw(random, 1, static_cast<int>(extents[dim]) - 1);
    op.parameters.sizes = {first, extents[dim] - first};
  } else if (op.kind == "sum") {
    op.parameters.dims = {op.parameters.dim};
  } else if (op.kind == "permute") {
    for (int d = 0; d <= last; ++d) op.parameters.dims.push_back(d);
    std::shuffle(op.parameters.dims.begin(), op.parameters.dims.end(), random);
  } else if (op.kind == "view") {
    op.parameters.to = extents;
    if (extents.size() > 1 && draw(random, 0, 1) == 0) {
      op.parameters.to.erase(op.parameters.to.begin());
      op.parameters.to[0] *= extents[0];
    } else {
      std::int64_t factor = draw(random, 1, 4);
      while (extents[dim] % factor != 0) --factor;
      op.parameters.to[dim] /= factor;
      op.parameters.to.insert(op.parameters.to.begin() + static_cast<std::ptrdiff_t>(dim), factor);
    }
  }
  std::vector<Extents> operands;
  for (const int one : op.operands)
    operands.push_back(graph.tensors[static_cast<std::size_t>(one)]);
  const auto space = std::get<IndexSpace>(index_space(op.kind, operands, op.parameters));
  for (const IndexedTensor& result : space.results)
    op.results.push_back(add_tensor(graph, space.extents_of(result), false));
  graph.ops.push_back(op);
}

TensorSpec stored_spec(Random& random, const Extents& extents, const DeviceMesh& mesh) {
  for (;;) {
    TensorSpec spec = random_spec(random, extents, mesh);
    if (std::none_of(spec.held.begin(), spec.held.end(),
                     [&](const Held& held) { return dim_of(spec, held.axis).has_value(); }))
      return spec;
  }
}

Strategy random_strategy(Random& random, const IndexSpace& space, const DeviceMesh& mesh) {
  for (int attempt = 0; attempt < 30; ++attempt) {
    Strategy strategy;
    for (const AxisId axis : mesh.axis_ids()) {
      const int use = draw(random, 0, static_cast<int>(space.indices.size()) + 2);
      const int index = use - 3;
      if (use == 1) strategy.entered = static_cast<AxisSet>(strategy.entered | bit(axis));
      if (use == 2) strategy.passed = static_cast<AxisSet>(strategy.passed | bit(axis));
      if (index < 0) continue;
      auto at = std::find_if(strategy.split.begin(), strategy.split.end(),
                             [&](const IndexSplit& one) { return one.index >= index; });
      if (at == strategy.split.end() || at->index != index)
        at = strategy.split.insert(at, {index, {}});
      at->axes.insert(draw(random, 0, 1) == 0 ? at->axes.begin() : at->axes.end(), axis);
    }
    if (std::holds_alternative<OperandSpecs>(apply(space, strategy, mesh))) return strategy;
  }
  return {};
}

/// One run of a graph: what each op reads and makes, whole and on ranks.
class GraphExecution {
 public:
  GraphExecution(Random& random, const OpGraph& graph, const DeviceMesh& mesh,
                 PlantedError& planted)
      : random_(random),
        graph_(graph),
        mesh_(mesh),
        planted_(planted),
        whole_(graph.tensors.size()),
        stored_(graph.tensors.size()) {
    for (int axis = 0; axis < mesh.num_axes(); ++axis)
      costs_.links.push_back({static_cast<double>(draw(random, 0, 3)), 1});
  }

  double difference(std::string& text, std::string& problem) {
    forward(text);
    double most = 0;
    for (std::size_t t = 0; t < whole_.size(); ++t)
      most = worse(most, whole_[t], gather(stored_[t], mesh_, problem));
    backward();
    for (std::size_t t = 0; t < whole_.size(); ++t)
      most = worse(most, whole_gradient_[t], gather(gradient_[t], mesh_, problem));
    return most;
  }

 private:
  struct Ran {
    std::vector<Redistribution> reads;
    std::vector<Redistribution> writes;
    std::vector<ShardedTensor> operands;
    std::vector<Extents> whole_results;
  };

  static double worse(double most, const DenseTensor& a, const DenseTensor& b) {
    for (std::size_t i = 0; i < a.data.size(); ++i) {
      const double off = std::abs(a.data[i] - b.data[i]);
      if (!(off <= most)) most = off;
    }
    return most;
  }

  Redistribution path(const TensorSpec& from, const TensorSpec& to, const Extents& extents) const {
    const auto found = redistribute(from, to, extents, mesh_, costs_);
    if (const auto* reason = std::get_if<Infeasible>(&found)) bug(reason->reason);
    return std::get<Redistribution>(found);
  }

  std::vector<DenseTensor> local(const std::vector<ShardedTensor>& tensors,
                                 std::size_t rank) const {
    std::vector<DenseTensor> out;
    for (const ShardedTensor& tensor : tensors) out.push_back(tensor.local[rank]);
    return out;
  }

  void forward(std::string& text) {
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
      if (!graph_.is_input[t]) continue;
      whole_[t] = random_tensor(random_, graph_.tensors[t]);
      stored_[t] =
          distribute(random_, whole_[t], stored_spec(random_, graph_.tensors[t], mesh_), mesh_);
      text += "input " + std::to_string(t) + " " + to_text(stored_[t].spec, mesh_) + "\n";
    }
    for (const GraphOp& op : graph_.ops) run(op, text);
  }

  /// The bias beside summands, as one who forgets that it is one would read it.
  TensorSpec forgotten(const TensorSpec& spec, const GraphOp& op, std::size_t operand) {
    if (planted_.kind != PlantedError::Kind::kBiasOnEveryPartial || op.kind != "linear" ||
        operand != 2 || spec.partial == 0)
      return spec;
    planted_.done = true;
    TensorSpec out = spec;
    for (const AxisId axis : axes_of(spec.partial)) set_state(out, axis, AxisState::kEntered);
    return out;
  }

  void run(const GraphOp& op, std::string& text) {
    std::vector<Extents> extents;
    std::vector<DenseTensor> whole;
    for (const int t : op.operands) {
      extents.push_back(graph_.tensors[static_cast<std::size_t>(t)]);
      whole.push_back(whole_[static_cast<std::size_t>(t)]);
    }
    const auto space = std::get<IndexSpace>(index_space(op.kind, extents, op.parameters));
    const Strategy strategy = random_strategy(random_, space, mesh_);
    const auto specs = std::get<OperandSpecs>(apply(space, strategy, mesh_));
    text += op.kind + " " + to_text(strategy, space, mesh_) + ":";
    Ran& ran = ran_.emplace_back();
    for (std::size_t o = 0; o < extents.size(); ++o) {
      const ShardedTensor& stored = stored_[static_cast<std::size_t>(op.operands[o])];
      const TensorSpec wanted = forgotten(specs.operands[o], op, o);
      ran.reads.push_back(path(stored.spec, wanted, extents[o]));
      ran.operands.push_back(moved(stored, ran.reads[o], mesh_, planted_));
      text += " " + std::to_string(op.operands[o]) + " " + to_text(specs.operands[o], mesh_);
    }
    std::vector<ShardedTensor> results;
    for (std::size_t r = 0; r < op.results.size(); ++r) {
      ran.whole_results.push_back(graph_.tensors[static_cast<std::size_t>(op.results[r])]);
      results.push_back(sharded_zeros(specs.results[r], ran.whole_results[r], mesh_));
    }
    const auto values = run_op(op, whole, ran.whole_results);
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(mesh_.num_ranks()); ++rank) {
      std::vector<Extents> local_results;
      for (const ShardedTensor& result : results)
        local_results.push_back(result.local[rank].extents);
      const auto made = run_op(op, local(ran.operands, rank), local_results);
      for (std::size_t r = 0; r < results.size(); ++r) results[r].local[rank] = made[r];
    }
    text += " ->";
    for (std::size_t r = 0; r < results.size(); ++r) {
      const auto t = static_cast<std::size_t>(op.results[r]);
      whole_[t] = values[r];
      ran.writes.push_back(path(specs.results[r], stored_spec(random_, ran.whole_results[r], mesh_),
                                ran.whole_results[r]));
      stored_[t] = moved(results[r], ran.writes[r], mesh_, planted_);
      text += " " + std::to_string(t) + " " + to_text(specs.results[r], mesh_) + " stored " +
              to_text(stored_[t].spec, mesh_);
    }
    text += "\n";
  }

  static void add(DenseTensor& sum, const DenseTensor& one) {
    for (std::size_t i = 0; i < sum.data.size(); ++i) sum.data[i] += one.data[i];
  }

  void backward() {
    std::vector<bool> read(whole_.size(), false);
    for (const GraphOp& op : graph_.ops) {
      for (const int t : op.operands) read[static_cast<std::size_t>(t)] = true;
    }
    for (std::size_t t = 0; t < whole_.size(); ++t) {
      whole_gradient_.push_back(read[t] ? zeros(graph_.tensors[t])
                                        : random_tensor(random_, graph_.tensors[t]));
      const TensorSpec spec = dual(stored_[t].spec);
      gradient_.push_back(read[t] ? sharded_zeros(spec, graph_.tensors[t], mesh_)
                                  : distribute(random_, whole_gradient_[t], spec, mesh_));
    }
    for (std::size_t i = graph_.ops.size(); i-- > 0;) run_back(graph_.ops[i], ran_[i]);
  }

  void run_back(const GraphOp& op, const Ran& ran) {
    std::vector<DenseTensor> whole, whole_gradients;
    std::vector<ShardedTensor> gradients;
    for (const int t : op.operands) whole.push_back(whole_[static_cast<std::size_t>(t)]);
    for (std::size_t r = 0; r < op.results.size(); ++r) {
      const auto t = static_cast<std::size_t>(op.results[r]);
      whole_gradients.push_back(whole_gradient_[t]);
      gradients.push_back(moved_back(gradient_[t], ran.writes[r], mesh_, planted_));
    }
    std::vector<ShardedTensor> made;
    for (const ShardedTensor& operand : ran.operands)
      made.push_back(sharded_zeros(dual(operand.spec), operand.extents, mesh_));
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(mesh_.num_ranks()); ++rank) {
      const auto out = run_backward(op, local(ran.operands, rank), local(gradients, rank));
      for (std::size_t o = 0; o < made.size(); ++o) made[o].local[rank] = out[o];
    }
    const auto whole_made = run_backward(op, whole, whole_gradients);
    for (std::size_t o = 0; o < made.size(); ++o) {
      const auto t = static_cast<std::size_t>(op.operands[o]);
      add(whole_gradient_[t], whole_made[o]);
      const ShardedTensor back = moved_back(made[o], ran.reads[o], mesh_, planted_);
      for (std::size_t rank = 0; rank < back.local.size(); ++rank)
        add(gradient_[t].local[rank], back.local[rank]);
    }
  }

  Random& random_;
  const OpGraph& graph_;
  const DeviceMesh& mesh_;
  PlantedError& planted_;
  MoveCosts costs_;
  std::vector<DenseTensor> whole_, whole_gradient_;
  std::vector<ShardedTensor> stored_, gradient_;
  std::vector<Ran> ran_;
};

}  // namespace

OpGraph random_graph(Random& random) {
  OpGraph graph;
  Extents extents;
  for (int dims = draw(random, 2, 3); dims > 0; --dims) extents.push_back(draw(random, 1, 6));
  add_tensor(graph, extents, true);
  for (int ops = draw(random, 2, 5); ops > 0; --ops) add_random_op(random, graph);
  return graph;
}

double sharded_difference(Random& random, const OpGraph& graph, const DeviceMesh& mesh,
                          PlantedError& planted, std::string& text, std::string& problem) {
  return GraphExecution(random, graph, mesh, planted).difference(text, problem);
}

}  // namespace trainyard
