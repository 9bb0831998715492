#include "app/plan_by_smp.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "app/module_lines.h"
#include "app/one_stage_training.h"
#include "app/op_timer.h"
#include "app/prepare.h"
#include "engine/base/format.h"
#include "engine/partition/module_walk.h"
#include "engine/partition/tree_partition.h"
#include "engine/planner/op_profile.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

class ModulePlanner {
 public:
  ModulePlanner(const ModulesRequest& request, const StudyResolvers& resolvers)
      : request_(request),
        prepared_(prepare_study(request.one_stage, resolvers)),
        training_(one_stage_training(prepared_)),
        modules_(model_modules(training_.graph)),
        timer_(resolvers),
        traced_(trace_modules(modules_, training_, prepared_.hardware, prepared_.software,
                              timer_.of(prepared_.study, training_))) {}

  PlannedModules plan() {
    PlannedModules out;
    const std::vector<std::int32_t> device =
        request_.partition.assign.empty() ? divided(out) : assigned();
    out.fallback = device.front();
    if (request_.partition.assign.empty()) {
      out.assign = assignment_of(modules_, device);
    } else {
      out.assign = request_.partition.assign;
    }
    const std::int64_t devices = request_.devices > 0
                                     ? request_.devices
                                     : *std::max_element(device.begin(), device.end()) + 1;
    check_devices(device, devices);
    ModuleWalk walk = walk_modules(modules_, device, request_.partition.routing);
    bool is_chain = std::ssize(walk.on) == devices;
    for (std::int64_t stage = 0; is_chain && stage < devices; ++stage)
      is_chain = walk.on[stage] == stage;
    if (!is_chain) {
      out.work = work_of(walk);
      out.on = std::move(walk.on);
    }
    for (std::string& line : device_lines(modules_, traced_, device, devices, weight(), timed()))
      out.lines.push_back(std::move(line));
    return out;
  }

 private:
  double weight() const { return request_.partition.memory_weight; }
  bool timed() const { return request_.partition.times == PartitionConfig::Times::kModel; }

  /// By FLOP, so that the order of calls does not depend on the device.
  Numbered<double> work_of(const ModuleWalk& walk) const {
    const auto ops = profile_ops(training_, prepared_.hardware, prepared_.software);
    Numbered<double> work(walk.on.size(), 0);
    for (const OpId op : ops.keys()) work[walk.stage[op]] += static_cast<double>(ops[op].flop);
    const double most = *std::max_element(work.begin(), work.end());
    for (double& share : work) share = most > 0 ? share / most : 1;
    return work;
  }

  std::vector<std::int32_t> divided(PlannedModules& out) const {
    const ModuleNodes nodes =
        module_nodes(traced_, modules_.same, weight(), timed(), FiguresOf::kModule);
    const TreePartition partition = partition_tree(nodes.tree, request_.devices);
    std::vector<std::int32_t> device;
    for (const std::size_t node : nodes.node_of)
      device.push_back(static_cast<std::int32_t>(partition.device[node]));
    out.reason = format("by costs of its modules, %.10g of memory and the rest of %s", weight(),
                        timed() ? "time" : "numbers of modules") +
                 OpTimer::text(request_.one_stage);
    out.lines = tree_lines(modules_, traced_, nodes, partition);
    return device;
  }

  /// What a study puts where no pipeline rank is.
  void check_assigned_ranks() const {
    if (request_.devices == 0) return;  // as many as it says
    const auto check_rank = [&](std::int32_t rank, const std::string& key) {
      if (rank < request_.devices) return;
      fail_at(request_.one_stage, key,
              "there are pipeline ranks 0 to " + std::to_string(request_.devices - 1) + ", not " +
                  std::to_string(rank));
    };
    for (const auto& [pattern, rank] : request_.partition.assign)
      check_rank(rank, "partition.assign." + pattern);
    check_rank(request_.partition.fallback, "partition.default");
  }

  std::vector<std::int32_t> assigned() const {
    check_assigned_ranks();
    auto devices =
        assigned_devices(modules_, request_.partition.assign, request_.partition.fallback);
    if (const auto* reason = std::get_if<Infeasible>(&devices))
      fail_at(request_.one_stage, reason->key, reason->reason);
    return std::get<std::vector<std::int32_t>>(std::move(devices));
  }

  /// Each has something to update.
  void check_devices(const std::vector<std::int32_t>& device, std::int64_t devices) const {
    std::set<std::int32_t> trains;
    for (std::size_t m = 0; m < device.size(); ++m) {
      if (traced_[m].parameters > 0) trains.insert(device[m]);
    }
    const bool by_hand = !request_.partition.assign.empty();
    const std::string key = by_hand ? "partition.assign" : "partition";
    for (std::int32_t one = 0; one < devices; ++one) {
      if (trains.contains(one)) continue;
      fail_at(request_.one_stage, key,
              (by_hand ? "leaves" : "method smp leaves") + std::string(" pipeline rank ") +
                  std::to_string(one) + " of " + std::to_string(devices) +
                  " without a module that has parameters; " +
                  (by_hand ? "give it one" : "write fewer in parallel.pipeline, or assign"));
    }
  }

  const ModulesRequest& request_;
  Prepared prepared_;
  TrainingGraph training_;
  ModelModules modules_;
  OpTimer timer_;
  std::vector<TracedModule> traced_;
};

}  // namespace

PlannedModules plan_by_smp(const ModulesRequest& request, const StudyResolvers& resolvers) {
  return ModulePlanner(request, resolvers).plan();
}

}  // namespace trainyard
