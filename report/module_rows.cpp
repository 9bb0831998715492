#include "report/module_rows.h"

#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "report/stage_bytes.h"
#include "report/stage_segments.h"

namespace trainyard {

namespace {

void add(const ModuleRow& row, ModuleRow& to) {
  to.stages.insert(row.stages.begin(), row.stages.end());
  to.forward += row.forward;
  to.backward += row.backward;
  to.parameters += row.parameters;
  to.activations += row.activations;
}

class ModuleSums {
 public:
  ModuleSums(const Program& program, const Costs& costs)
      : program_(program),
        segments_(program, costs) {
    nodes_.emplace_back();
    number_.emplace("", 0);
  }

  std::vector<ModuleRow> run(std::int64_t stages) {
    for (std::int32_t stage = 0; stage < stages; ++stage) {
      add_forward(stage);
      for (const SegmentId id : segments_.backward(stage)) {
        const std::vector<ProgramOp>& ops = program_.segments[id].ops;
        for (std::size_t k = 0; k < ops.size(); ++k)
          nodes_[node_of(ops[k])].row.backward += segments_.time(id, k);
      }
    }
    // Parents stand before their children.
    for (std::size_t n = nodes_.size(); n-- > 1;) add(nodes_[n].row, nodes_[nodes_[n].parent].row);
    list({0}, 0);
    return std::move(out_);
  }

 private:
  struct Node {
    ModuleRow row;
    std::size_t parent = 0;
    std::vector<std::size_t> below;
  };

  std::size_t node_at(const std::string& path) {
    if (const auto known = number_.find(path); known != number_.end()) return known->second;
    const std::size_t dot = path.rfind('.');
    const std::size_t parent = node_at(dot == std::string::npos ? "" : path.substr(0, dot));
    const std::size_t number = nodes_.size();
    nodes_.emplace_back().parent = parent;
    nodes_[number].row.path = path;
    nodes_[parent].below.push_back(number);
    number_.emplace(path, number);
    return number;
  }

  std::size_t node_of(const ProgramOp& op) { return node_at(program_.modules[op.module]); }

  void add_forward(std::int32_t stage) {
    const SegmentId id = segments_.forward(stage);
    if (id == kNoIndex) return;
    StageBytes bytes(program_, segments_, stage);
    const std::vector<ProgramOp>& ops = program_.segments[id].ops;
    for (std::size_t k = 0; k < ops.size(); ++k) {
      if (ops[k].kind == OpKind::kFree) continue;
      ModuleRow& row = nodes_[node_of(ops[k])].row;
      row.stages.insert(stage);
      row.forward += segments_.time(id, k);
      row.parameters += bytes.parameters(ops[k]);
      row.activations += bytes.activations(ops[k]);
    }
  }

  /// One module, or several of one module that lie on one stage.
  void list(const std::vector<std::size_t>& modules, int depth) {
    ModuleRow row = nodes_[modules.front()].row;
    row.depth = depth;
    for (std::size_t i = 1; i < modules.size(); ++i) {
      add(nodes_[modules[i]].row, row);
      row.last = nodes_[modules[i]].row.path;
    }
    const bool in_parts = row.stages.size() > 1;
    out_.push_back(std::move(row));
    if (!in_parts) return;
    std::vector<std::size_t> alike;
    for (const std::size_t below : nodes_[modules.front()].below) {
      const std::set<std::int32_t>& stages = nodes_[below].row.stages;
      if (stages.empty()) continue;  // nothing of its forward is in the Program
      const bool goes_on =
          !alike.empty() && stages.size() == 1 && stages == nodes_[alike.front()].row.stages;
      if (!goes_on && !alike.empty()) list(std::exchange(alike, {}), depth + 1);
      alike.push_back(below);
    }
    if (!alike.empty()) list(alike, depth + 1);
  }

  const Program& program_;
  StageSegments segments_;
  std::vector<Node> nodes_;
  std::unordered_map<std::string, std::size_t> number_;  // of a path
  std::vector<ModuleRow> out_;
};

}  // namespace

std::vector<ModuleRow> module_rows(const Program& program, const Costs& costs,
                                   std::int64_t stages) {
  return ModuleSums(program, costs).run(stages);
}

nlohmann::ordered_json modules_json(const std::vector<ModuleRow>& rows) {
  auto out = nlohmann::ordered_json::array();
  for (const ModuleRow& row : rows) {
    auto& module = out.emplace_back();
    module["path"] = row.path;
    if (!row.last.empty()) module["last"] = row.last;
    module["depth"] = row.depth;
    module["stages"] = row.stages;
    module["forward_s"] = row.forward;
    module["backward_s"] = row.backward;
    module["parameters_bytes"] = row.parameters;
    module["activations_bytes"] = row.activations;
  }
  return out;
}

}  // namespace trainyard
