#include "engine/passes/smp_modules.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "engine/passes/chosen_modules.h"

namespace trainyard {

namespace {

bool lies_in(std::string_view path, std::string_view module) {
  if (module.empty() || path == module) return true;
  return path.size() > module.size() && path.starts_with(module) && path[module.size()] == '.';
}

class ModuleReplacement {
 public:
  ModuleReplacement(const Graph& graph, const std::vector<std::string>& patterns)
      : graph_(graph),
        patterns_(patterns) {
    readers_.assign(graph.parameters.size(), {});
    for (const OpId id : graph.ops.keys()) {
      const Op& op = graph.ops[id];
      for (const TensorId input : op.inputs) {
        if (graph.tensors[input].parameter != kNoIndex)
          readers_[graph.tensors[input].parameter].push_back(id);
      }
      if (!reads_weight(op)) continue;
      for (std::string path = graph.modules[op.module];;) {
        if (!weighted_.contains(path)) order_.push_back(path);
        weighted_[path].push_back(id);
        if (path.empty()) break;
        const std::size_t dot = path.rfind('.');
        path.resize(dot == std::string::npos ? 0 : dot);
      }
    }
  }

  SmpModules run() {
    // A module comes before those inside it.
    std::sort(order_.begin(), order_.end(), [&](const std::string& a, const std::string& b) {
      const OpId first_a = weighted_[a].front(), first_b = weighted_[b].front();
      return first_a != first_b ? first_a < first_b : a.size() < b.size();
    });
    for (const std::string& path : order_) out_.modules.push_back(judge(path));
    for (std::size_t i = 0; i < out_.modules.size(); ++i) {
      if (out_.modules[i].broken == 0) replaced_.push_back(static_cast<int>(i));
    }
    out_.of_op.assign(graph_.ops.size(), -1);
    for (const OpId id : graph_.ops.keys()) out_.of_op[id] = module_of(graph_.ops[id]);
    return std::move(out_);
  }

 private:
  bool reads_weight(const Op& op) const {
    return std::any_of(op.inputs.begin(), op.inputs.end(),
                       [&](TensorId input) { return graph_.tensors[input].parameter != kNoIndex; });
  }

  /// What of a transformer a distributed one has.
  bool is_of_transformer(const Op& op) const {
    switch (op.kind) {
      case OpKind::kLinear:
      case OpKind::kEmbedding:
      case OpKind::kLayerNorm:
      case OpKind::kRmsNorm:
      case OpKind::kRelativeBias:
      case OpKind::kBiasGelu:
      case OpKind::kBiasDropoutAdd:
      case OpKind::kHeadNorm: return true;
      default: return false;
    }
  }
  SplitHint hint(const Op& op) const {
    return graph_.parameters[graph_.tensors[op.inputs[1]].parameter].split;
  }

  /// Rule 1. nullopt: `reason`.
  std::optional<SmpKind> kind_of(const std::string& path, std::string& reason) {
    const std::vector<OpId>& ops = weighted_[path];
    const auto is = [&](OpKind kind) {
      return ops.size() == 1 && graph_.ops[ops.front()].kind == kind &&
             graph_.modules[graph_.ops[ops.front()].module] == path;
    };
    if (is(OpKind::kLinear)) return SmpKind::kLinear;
    if (is(OpKind::kEmbedding)) return SmpKind::kEmbedding;
    bool rows = false;
    for (const OpId id : ops) {
      const Op& op = graph_.ops[id];
      if (!is_of_transformer(op)) {
        reason = "there is no distributed one: " + graph_.modules[op.module] + " is " +
                 std::string(to_string(op.kind));
        return std::nullopt;
      }
      rows = rows || (op.kind == OpKind::kLinear && hint(op) == SplitHint::kRow);
    }
    if (rows) return SmpKind::kTransformer;
    reason = "there is no distributed one: it has neither attention nor an MLP of a transformer";
    return std::nullopt;
  }

  /// Rule 4: a module outside with which it shares a weight; empty: none.
  std::string shares_with(const std::string& path) {
    for (const OpId id : weighted_[path]) {
      for (const TensorId input : graph_.ops[id].inputs) {
        const ParameterId parameter = graph_.tensors[input].parameter;
        if (parameter == kNoIndex) continue;
        for (const OpId reader : readers_[parameter]) {
          const std::string& other = graph_.modules[graph_.ops[reader].module];
          if (!lies_in(other, path)) return other;
        }
      }
    }
    return {};
  }

  SmpModule judge(const std::string& path) {
    SmpModule out{path, SmpKind::kNone, 0, {}, {}};
    for (const SmpModule& before : out_.modules) {
      if (before.broken != 0 || !lies_in(path, before.path)) continue;
      out.broken = 3;
      out.replaced = before.path;
      out.reason =
          "it lies in " + (before.path.empty() ? "the model" : before.path) + ", which is replaced";
      return out;
    }
    const auto kind = kind_of(path, out.reason);
    const std::string shared = shares_with(path);
    if (!kind) {
      out.broken = 1;
    } else if (!is_chosen(path, patterns_)) {
      out.broken = 2;
      out.reason = "parallel.tensor_modules does not choose it";
    } else if (!shared.empty()) {
      out.broken = 4;
      out.reason = "it shares a weight with " + shared;
    } else {
      out.kind = *kind;
    }
    return out;
  }

  int module_of(const Op& op) const {
    const std::string& path = graph_.modules[op.module];
    for (const int i : replaced_) {
      const SmpModule& module = out_.modules.begin()[i];
      if (!lies_in(path, module.path)) continue;
      const bool own = module.kind == SmpKind::kTransformer ||
                       (module.kind == SmpKind::kLinear && op.kind == OpKind::kLinear) ||
                       (module.kind == SmpKind::kEmbedding && op.kind == OpKind::kEmbedding);
      return own ? i : -1;
    }
    return -1;
  }

  const Graph& graph_;
  const std::vector<std::string>& patterns_;
  Indexed<ParameterId, std::vector<OpId>> readers_;
  std::map<std::string, std::vector<OpId>> weighted_;  // ops with weights, by module and ancestor
  std::vector<std::string> order_;
  std::vector<int> replaced_;
  SmpModules out_;
};

}  // namespace

std::string_view to_string(SmpKind kind) {
  switch (kind) {
    case SmpKind::kLinear: return "linear";
    case SmpKind::kEmbedding: return "embedding";
    case SmpKind::kTransformer: return "transformer";
    case SmpKind::kNone: break;
  }
  return "none";
}

SmpModules smp_modules(const Graph& graph, const std::vector<std::string>& patterns) {
  return ModuleReplacement(graph, patterns).run();
}

}  // namespace trainyard
