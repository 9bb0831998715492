#include "engine/passes/plan_given.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/passes/choose_strategy.h"
#include "engine/passes/complete_spec.h"
#include "engine/passes/given_modules.h"
#include "engine/passes/given_sharding.h"
#include "engine/passes/moved_parameters.h"

namespace trainyard {

namespace {

class GivenPlanner {
 public:
  explicit GivenPlanner(PlannedGraph base)
      : out_(std::move(base)),
        graph_(out_.graph),
        sharding_(out_.sharding),
        chooser_(graph_, sharding_),
        modules_(graph_),
        given_(graph_.tensors.size(), nullptr),
        fixed_(graph_.ops.size(), nullptr),
        read_(graph_.tensors.size(), false) {}

  std::variant<PlannedGraph, Infeasible> run(const std::vector<GivenSharding>& given) {
    auto found = find_given(out_, given);
    if (const auto* mistakes = std::get_if<std::vector<GivenMistake>>(&found))
      return Infeasible{mistakes->front().problem, mistakes->front().key};
    found_ = std::get<FoundSharding>(std::move(found));
    fix();
    for (const OpId id : graph_.ops.keys()) {
      if (problem_) return *problem_;
      if (is_completed(id)) complete(id);
      for (const TensorId input : graph_.ops[id].inputs) read_[input] = true;
    }
    if (problem_) return *problem_;
    return std::move(out_);
  }

 private:
  const Tensor& tensor(TensorId id) const { return graph_.tensors[id]; }
  bool is_parameter(TensorId id) const { return tensor(id).role == TensorRole::kParameter; }
  const TensorSpec& stored(TensorId id) const { return sharding_.specs[sharding_.stored[id]]; }

  void refuse(const std::string& reason, const std::string& key) {
    if (!problem_) problem_ = Infeasible{reason, key};
  }

  void fix() {
    for (const GivenTensor& one : found_.tensors) {
      given_[one.tensor] = &one;
      sharding_.stored[one.tensor] = sharding_.specs.add(one.spec);
      const Tensor& t = tensor(one.tensor);
      const auto shape = local_shape(t.name, t.shape, one.spec, sharding_);
      if (const auto* reason = std::get_if<Infeasible>(&shape)) refuse(reason->reason, one.key);
    }
    for (const GivenStrategy& one : found_.ops) fixed_[one.op] = &one;
  }

  bool is_completed(OpId id) const {
    const Op& op = graph_.ops[id];
    if (fixed_[id] != nullptr) return true;
    const bool expanded = op.kind == OpKind::kCrossEntropyMax ||
                          op.kind == OpKind::kCrossEntropySum || op.kind == OpKind::kCrossEntropy;
    const auto is_given = [&](TensorId t) { return given_[t] != nullptr; };
    return !expanded && (std::any_of(op.inputs.begin(), op.inputs.end(), is_given) ||
                         std::any_of(op.outputs.begin(), op.outputs.end(), is_given));
  }

  /// The key of what was given about an op: what leaves least choice first.
  std::string key_of(OpId id) const {
    if (fixed_[id] != nullptr) return fixed_[id]->key;
    const Op& op = graph_.ops[id];
    for (const TensorId t : op.inputs) {
      if (given_[t] != nullptr && is_parameter(t)) return given_[t]->key;
    }
    for (const TensorId t : op.outputs) {
      if (given_[t] != nullptr) return given_[t]->key;
    }
    for (const TensorId t : op.inputs) {
      if (given_[t] != nullptr) return given_[t]->key;
    }
    bug("nothing is given about a completed op");
  }

  /// What the readers that keep the method's strategy want of a result, each spec once.
  std::vector<SpecId> wanted(TensorId result) const {
    std::vector<SpecId> out;
    for (const OpId reader : modules_.readers(result)) {
      if (is_completed(reader)) continue;
      const Op& op = graph_.ops[reader];
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (op.inputs[i] != result) continue;
        const SpecId want = sharding_.splits[sharding_.ops[reader]].operands[i];
        if (std::find(out.begin(), out.end(), want) == out.end()) out.push_back(want);
      }
    }
    return out;
  }

  /// A parameter that is not given is stored as its first reader uses it, unless another one keeps
  /// the method's strategy.
  bool is_stored_here(TensorId input) const {
    if (!is_parameter(input) || given_[input] != nullptr || read_[input]) return false;
    const std::vector<OpId>& readers = modules_.readers(input);
    return std::all_of(readers.begin(), readers.end(), [&](OpId id) { return is_completed(id); });
  }

  struct KnownOp {
    SplitId split;
    std::vector<SpecId> operands;  // as they are stored from here on
    std::vector<SpecId> results;
  };

  void complete(OpId id) {
    const auto [it, fresh] = known_.try_emplace(key_text(id));
    if (fresh) it->second = complete_anew(id);
    if (problem_) return;
    const Op& op = graph_.ops[id];
    const KnownOp& known = it->second;
    sharding_.ops[id] = known.split;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (is_stored_here(op.inputs[i])) sharding_.stored[op.inputs[i]] = known.operands[i];
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      sharding_.stored[op.outputs[i]] = known.results[i];
  }

  /// Layers repeat: what the split of an op depends on.
  std::string key_text(OpId id) const {
    const Op& op = graph_.ops[id];
    std::string key;
    const auto add = [&](std::int64_t number) {
      key.append(reinterpret_cast<const char*>(&number), sizeof number);
    };
    const auto add_tensor = [&](TensorId t, bool parts) {
      add(static_cast<std::int64_t>(tensor(t).dtype));
      add(tensor(t).needs_gradient);
      for (const std::int64_t extent : tensor(t).shape) add(extent);
      add(-1);
      if (!parts || tensor(t).parameter == kNoIndex) return;
      for (const ParameterPart& part : graph_.parameters[tensor(t).parameter].parts) add(part.rows);
      add(-1);
    };
    add(static_cast<std::int64_t>(op.kind));
    for (const std::int64_t number :
         {std::int64_t{op.attrs->heads}, std::int64_t{op.attrs->kv_heads},
          std::int64_t{op.attrs->head_dim}, std::int64_t{op.attrs->packed},
          std::int64_t{op.attrs->has_mask}, std::int64_t{op.attrs->has_bias},
          std::int64_t{op.attrs->groups}, std::int64_t{op.attrs->samples},
          std::int64_t{op.attrs->dim}, std::int64_t{op.attrs->states}, op.attrs->begin})
      add(number);
    for (const int dim : op.attrs->dims) add(dim);
    add(-1);
    add(sharding_.ops[id].number());
    for (const TensorId t : op.inputs) {
      add_tensor(t, true);
      add(is_parameter(t) + 2 * (given_[t] != nullptr) + 4 * is_stored_here(t));
      add(is_stored_here(t) ? -1 : sharding_.stored[t].number());
    }
    for (const TensorId t : op.outputs) {
      add_tensor(t, false);
      add(given_[t] != nullptr ? sharding_.stored[t].number() : -1);
      for (const SpecId want : wanted(t)) add(want.number());
      add(-1);
    }
    if (fixed_[id] == nullptr) return key;
    for (const IndexSplit& split : fixed_[id]->strategy.split) {
      add(split.index);
      for (const AxisId axis : split.axes) add(axis);
      add(-1);
    }
    add(fixed_[id]->strategy.entered);
    add(fixed_[id]->strategy.passed);
    return key;
  }

  KnownOp complete_anew(OpId id) {
    const Op& op = graph_.ops[id];
    const auto space = base_space(out_, op);
    check(space.has_value(), "the method has split an op without an index space");
    const Strategy base = sharding_.splits[sharding_.ops[id]].strategy;
    OpQuestion question{op, {}, {}, base, nullptr};
    if (fixed_[id] != nullptr) question.given = &fixed_[id]->strategy;
    for (const TensorId t : op.inputs) {
      StoredOperand operand;
      if (!is_stored_here(t)) operand.spec = stored(t);
      operand.as_stored = is_parameter(t) && !is_stored_here(t);
      question.operands.push_back(std::move(operand));
    }
    for (const TensorId t : op.outputs) {
      StoredResult result;
      if (given_[t] != nullptr) result.spec = stored(t);
      for (const SpecId want : wanted(t)) result.wanted.push_back(sharding_.specs[want]);
      question.results.push_back(std::move(result));
    }
    auto chosen = chooser_.choose(question, *space);
    if (std::holds_alternative<Infeasible>(chosen)) {
      // A tied parameter is moved where no strategy uses it as another op does.
      for (std::size_t i = 0; i < op.inputs.size(); ++i)
        question.operands[i].as_stored =
            question.operands[i].as_stored && given_[op.inputs[i]] != nullptr;
      chosen = chooser_.choose(question, *space);
    }
    if (std::holds_alternative<Infeasible>(chosen) && fixed_[id] != nullptr &&
        is_weighted(op.kind)) {
      // A weight that is given, and used as the strategy has it, is gathered in every microbatch.
      question.operands[1].as_stored = false;
      auto gathered = chooser_.choose(question, *space);
      if (std::holds_alternative<OpChoice>(gathered)) chosen = std::move(gathered);
    }
    if (const auto* reason = std::get_if<Infeasible>(&chosen)) {
      refuse(reason->reason, key_of(id));
      return {};
    }
    const OpChoice& choice = std::get<OpChoice>(chosen);
    auto split = split_op(graph_, op, *space, choice.strategy, sharding_);
    check(std::holds_alternative<SplitOp>(split), "a strategy that was chosen applies");
    KnownOp known{sharding_.splits.add(std::get<SplitOp>(std::move(split))), {}, {}};
    for (const TensorSpec& spec : choice.operands)
      known.operands.push_back(sharding_.specs.add(spec));
    for (const TensorSpec& spec : choice.results)
      known.results.push_back(sharding_.specs.add(spec));
    return known;
  }

  PlannedGraph out_;
  Graph& graph_;
  Sharding& sharding_;
  StrategyChooser chooser_;
  GivenModules modules_;
  FoundSharding found_;
  Indexed<TensorId, const GivenTensor*> given_;
  Indexed<OpId, const GivenStrategy*> fixed_;
  Indexed<TensorId, bool> read_;  // by an op before the one at hand
  std::unordered_map<std::string, KnownOp> known_;
  std::optional<Infeasible> problem_;
};

}  // namespace

std::variant<PlannedGraph, Infeasible> plan_given(PlannedGraph base,
                                                  const std::vector<GivenSharding>& given) {
  return GivenPlanner(std::move(base)).run(given);
}

}  // namespace trainyard
