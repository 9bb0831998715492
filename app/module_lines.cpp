#include "app/module_lines.h"

#include <algorithm>

#include "engine/base/format.h"
#include "engine/base/readable.h"
#include "engine/planner/memory_profile.h"
#include "engine/planner/op_profile.h"

namespace trainyard {

namespace {

/// What modules take, each with all below it.
std::vector<TracedModule> with_all_below(const std::vector<TracedModule>& traced) {
  std::vector<TracedModule> out = traced;
  for (std::size_t m = out.size(); m-- > 1;) {
    TracedModule& parent = out[out[m].parent];
    parent.parameters += out[m].parameters;
    parent.activation += out[m].activation;
    parent.time += out[m].time;
  }
  return out;
}

std::string bytes_of(double bytes) { return bytes_text(static_cast<Bytes>(bytes)); }

std::string devices_text(const std::vector<std::int64_t>& devices) {
  std::string text = devices.size() == 1 ? "rank" : "ranks";
  for (const std::int64_t device : devices) text += " " + std::to_string(device);
  return text;
}

std::string last_part(const std::string& path) {
  return path.substr(path.rfind('.') == std::string::npos ? 0 : path.rfind('.') + 1);
}

class TreeText {
 public:
  TreeText(const ModelModules& modules, const std::vector<TracedModule>& traced,
           const ModuleNodes& nodes, const TreePartition& partition)
      : modules_(modules),
        sums_(with_all_below(traced)),
        nodes_(nodes),
        partition_(partition),
        children_(nodes.tree.parent.size()),
        first_(nodes.tree.parent.size(), kNoParent) {
    for (std::size_t n = 1; n < children_.size(); ++n) children_[nodes.tree.parent[n]].push_back(n);
    for (std::size_t m = 0; m < modules.path.size(); ++m) {
      std::size_t& first = first_[nodes.node_of[m]];
      if (first == kNoParent) first = m;
    }
  }

  std::vector<std::string> run() {
    add(0, 0, 0);
    return std::move(lines_);
  }

 private:
  const std::vector<std::int64_t>& devices(std::size_t node) const {
    return *partition_.devices[node];
  }

  std::string name(std::size_t node) const {
    const std::string& path = modules_.path[first_[node]];
    if (path.empty()) return "model";
    std::string text = nodes_.tree.parent[node] == 0 ? path : last_part(path);
    std::size_t others = 0;
    for (std::size_t m = first_[node] + 1; m < modules_.path.size(); ++m)
      others += nodes_.node_of[m] == node ? 1 : 0;
    if (others > 0) text += format(" (and %zu that share its parameters)", others);
    return text;
  }

  void add(std::size_t first, std::size_t last, int depth) {
    double cost = 0;
    TracedModule sum;
    for (std::size_t n = first; n <= last; ++n) {
      if (n != first && nodes_.tree.parent[n] != nodes_.tree.parent[first]) continue;
      cost += nodes_.tree.cost[n];
      const TracedModule& of = sums_[first_[n]];
      sum.parameters += of.parameters;
      sum.activation += of.activation;
      sum.time += of.time;
    }
    const std::string text = format("%*s", 2 * depth, "") + name(first) +
                             (first == last ? "" : " to " + last_part(modules_.path[first_[last]]));
    lines_.push_back(format("  %-44s cost %.4f  parameters %s, activations %s, forward %s  %s",
                            text.c_str(), cost, bytes_of(sum.parameters).c_str(),
                            bytes_of(sum.activation).c_str(), duration_text(sum.time).c_str(),
                            devices_text(devices(first)).c_str()));
    if (first != last || devices(first).size() == 1) return;
    const std::vector<std::size_t>& below = children_[first];
    for (std::size_t i = 0; i < below.size();) {
      std::size_t end = i + 1;
      while (devices(below[i]).size() == 1 && end < below.size() &&
             devices(below[end]) == devices(below[i]))
        ++end;
      add(below[i], below[end - 1], depth + 1);
      i = end;
    }
  }

  const ModelModules& modules_;
  std::vector<TracedModule> sums_;  // [module]
  const ModuleNodes& nodes_;
  const TreePartition& partition_;
  std::vector<std::vector<std::size_t>> children_;
  std::vector<std::size_t> first_;  // [node]: its first module
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<TracedModule> trace_modules(const ModelModules& modules, const TrainingGraph& training,
                                        const HardwareProfile& hardware,
                                        const SoftwareProfile& software, const OpTimes* measured) {
  const auto ops = profile_ops(training, hardware, software, measured);
  const MemoryProfile memory = profile_memory(training);
  std::vector<TracedModule> out(modules.path.size());
  for (std::size_t m = 0; m < out.size(); ++m) out[m].parent = modules.parent[m];
  const Graph& graph = training.graph;
  Indexed<TensorId, bool> counted(graph.tensors.size(), false);
  for (const OpId i : graph.ops.keys()) {
    TracedModule& module = out[modules.of_op[i]];
    module.time += ops[i].forward;
    module.activation += static_cast<double>(memory.ops[i].fwd_kept);
    for (const TensorId input : graph.ops[i].inputs) {
      const Tensor& tensor = graph.tensors[input];
      if (tensor.role != TensorRole::kParameter || counted[input]) continue;
      counted[input] = true;
      module.parameters +=
          static_cast<double>(num_elements(tensor.shape) * size_in_bytes(tensor.dtype));
    }
  }
  return out;
}

std::vector<std::string> tree_lines(const ModelModules& modules,
                                    const std::vector<TracedModule>& traced,
                                    const ModuleNodes& nodes, const TreePartition& partition) {
  return TreeText(modules, traced, nodes, partition).run();
}

std::vector<std::string> device_lines(const ModelModules& modules,
                                      const std::vector<TracedModule>& traced,
                                      const std::vector<std::int32_t>& device, std::int64_t devices,
                                      double memory_weight, bool timed) {
  std::vector<TracedModule> on(devices);
  std::vector<double> count(devices, 0);
  TracedModule all;
  for (std::size_t m = 0; m < modules.path.size(); ++m) {
    for (TracedModule* sum : {&on[device[m]], &all}) {
      sum->parameters += traced[m].parameters;
      sum->activation += traced[m].activation;
      sum->time += traced[m].time;
    }
    count[device[m]] += 1;
  }
  std::vector<std::string> lines;
  for (std::int64_t one = 0; one < devices; ++one) {
    const TracedModule& here = on[one];
    const double memory = (here.parameters + here.activation) / (all.parameters + all.activation);
    const double time =
        timed ? here.time / all.time : count[one] / static_cast<double>(modules.path.size());
    const double load = memory_weight * memory + (1 - memory_weight) * time;
    lines.push_back(
        format("  pipeline rank %-2lld load %.4f  parameters %s, activations %s, "
               "forward %s",
               static_cast<long long>(one), load, bytes_of(here.parameters).c_str(),
               bytes_of(here.activation).c_str(), duration_text(here.time).c_str()));
  }
  return lines;
}

}  // namespace trainyard
