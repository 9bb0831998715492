#include "engine/passes/plan_auto.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "engine/passes/given_modules.h"

namespace trainyard {

namespace {

using Collective = SplitRule::Collective;

std::string key_of(const SplitRule& rule) { return "parallel.tensor_method.table." + rule.modules; }

/// How an op's weight is split by a rule; nullopt: not at all, by `problem`.
struct RuleUse {
  SplitHint hint = SplitHint::kNone;
  bool gathers = false;
  std::string problem;
};

RuleUse use_of(const Op& op, const SplitRule& rule) {
  const bool none = rule.collective == Collective::kNone,
             gathers = rule.collective == Collective::kAllGather,
             reduces = rule.collective == Collective::kAllReduce;
  const auto use = [&](SplitHint hint, bool right, const std::string& what,
                       const std::string& words) {
    RuleUse out{hint, gathers, {}};
    if (!right) out.problem = what + " takes collective " + words;
    return out;
  };
  const std::string dim = "dim " + std::to_string(rule.dim);
  switch (op.kind) {
    case OpKind::kLinear:
      return rule.dim == 0 ? use(SplitHint::kColumn, !reduces, dim + " of a product",
                                 "none or all_gather: its ranks have outputs of their own")
                           : use(SplitHint::kRow, reduces, dim + " of a product",
                                 "all_reduce: its ranks make summands");
    case OpKind::kEmbedding:
      return rule.dim == 0 ? use(SplitHint::kVocabulary, reduces, dim + " of a table",
                                 "all_reduce: a row lies on one of its ranks")
                           : use(SplitHint::kRow, !reduces, dim + " of a table",
                                 "none or all_gather: its ranks have features of their own");
    case OpKind::kRelativeBias:
      return use(SplitHint::kHeads, rule.dim == 1 && none, "a relative bias",
                 "none, and dim 1, its heads");
    default: return {};
  }
}

bool same_split(SplitHint a, SplitHint b) {
  const auto rows = [](SplitHint hint) {
    return hint == SplitHint::kColumn || hint == SplitHint::kVocabulary;
  };
  return a == b || (rows(a) && rows(b));
}

/// A graph whose hints are the table's.
class TableHints {
 public:
  TableHints(Graph graph, const std::vector<SplitRule>& table)
      : graph_(std::move(graph)),
        table_(table) {
    by_.assign(graph_.parameters.size(), nullptr);
    gathered_.assign(graph_.tensors.size(), false);
    used_.assign(table.size(), false);
  }

  std::optional<Infeasible> run() {
    Indexed<ParameterId, const Op*> reader;
    reader.assign(graph_.parameters.size(), nullptr);
    for (Parameter& parameter : graph_.parameters) parameter.split = SplitHint::kNone;
    for (const Op& op : graph_.ops) {
      const std::size_t weight = op.kind == OpKind::kRelativeBias ? 0 : 1;
      if (op.inputs.size() <= weight) continue;
      const ParameterId id = graph_.tensors[op.inputs[weight]].parameter;
      if (id == kNoIndex) continue;
      const SplitRule* rule = split_rule(graph_.modules[op.module], table_);
      const RuleUse use = rule != nullptr ? use_of(op, *rule) : RuleUse{};
      if (rule != nullptr && !use.problem.empty()) return Infeasible{use.problem, key_of(*rule)};
      const bool splittable = use.hint != SplitHint::kNone || rule == nullptr;
      if (!splittable) continue;
      note(rule);
      Parameter& parameter = graph_.parameters[id];
      if (reader[id] != nullptr && !same_split(parameter.split, use.hint)) {
        const SplitRule* said = is_given(rule) || by_[id] == nullptr ? rule : by_[id];
        return Infeasible{graph_.modules[op.module] + " and " + graph_.modules[reader[id]->module] +
                              " share " + parameter.name +
                              ", which their entries split in two ways; say the same of both",
                          key_of(*said)};
      }
      reader[id] = &op;
      by_[id] = rule;
      if (parameter.split != SplitHint::kVocabulary) parameter.split = use.hint;
      if (use.gathers) gathered_[op.outputs[0]] = true;
    }
    return find_unused();
  }

  Graph& graph() { return graph_; }
  bool is_gathered(TensorId id) const {
    return id.number() < std::ssize(gathered_) && gathered_[id];
  }

 private:
  bool is_given(const SplitRule* rule) const {
    return std::any_of(table_.begin(), table_.end(),
                       [&](const SplitRule& one) { return &one == rule; });
  }

  void note(const SplitRule* rule) {
    for (std::size_t i = 0; i < table_.size(); ++i) {
      if (rule == &table_[i]) used_[i] = true;
    }
  }

  std::optional<Infeasible> find_unused() const {
    for (std::size_t i = 0; i < table_.size(); ++i) {
      if (used_[i]) continue;
      return Infeasible{
          "no product, table or relative bias is split by this entry: no module's "
          "path matches it, or others match with more literal characters",
          key_of(table_[i])};
    }
    return std::nullopt;
  }

  Graph graph_;
  const std::vector<SplitRule>& table_;
  Indexed<ParameterId, const SplitRule*> by_;
  Indexed<TensorId, bool> gathered_;
  std::vector<bool> used_;
};

}  // namespace

std::span<const SplitRule> default_split_table() {
  static const std::array<SplitRule, 13> kTable = {{
      {"*attention.qkv", 0, Collective::kNone},  // all families
      {"*attention.q", 0, Collective::kNone},    // T5: cross-attention
      {"*attention.kv", 0, Collective::kNone},
      {"*attention.proj", 1, Collective::kAllReduce},
      {"*.mlp.fc1", 0, Collective::kNone},
      {"*.mlp.gate_up", 0, Collective::kNone},  // gated: Llama, T5
      {"*.mlp.fc2", 1, Collective::kAllReduce},
      {"*.mlp.down", 1, Collective::kAllReduce},
      {"embedding.tokens", 0, Collective::kAllReduce},
      {"*.embedding.tokens", 0, Collective::kAllReduce},  // T5's decoder, CLIP's texts
      {"lm_head", 0, Collective::kNone},                  // GPT, Llama, T5
      {"mlm_head", 0, Collective::kNone},                 // BERT
      {"*relative_bias", 1, Collective::kNone},           // T5
  }};
  return kTable;
}

const SplitRule* split_rule(const std::string& module, const std::vector<SplitRule>& table) {
  const auto literals = [](const SplitRule& rule) {
    return std::ssize(rule.modules) - std::ranges::count(rule.modules, '*');
  };
  const auto best_of = [&](const auto& rules) {
    const SplitRule* best = nullptr;
    for (const SplitRule& rule : rules) {
      if (!matches_pattern(rule.modules, module)) continue;
      if (best == nullptr || literals(rule) > literals(*best)) best = &rule;
    }
    return best;
  };
  const SplitRule* given = best_of(table);
  return given != nullptr ? given : best_of(default_split_table());
}

std::variant<PlannedGraph, Infeasible> plan_auto(Graph graph, const AutoPlan& plan) {
  TableHints hints(std::move(graph), plan.table);
  if (auto problem = hints.run()) return std::move(*problem);
  return plan_megatron(std::move(hints.graph()), plan,
                       [&](TensorId id) { return hints.is_gathered(id); });
}

}  // namespace trainyard
