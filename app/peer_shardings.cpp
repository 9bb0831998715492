#include "app/peer_shardings.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <variant>

#include "engine/passes/plan_atp.h"
#include "engine/passes/plan_map.h"
#include "engine/passes/plan_megatron.h"
#include "engine/passes/plan_smp.h"
#include "engine/passes/tensor_methods.h"

namespace trainyard {

namespace {

bool splits_family(std::string_view method, Family family) {
  const auto& families = tensor_method(method).families;
  return families.empty() || std::find(families.begin(), families.end(), family) != families.end();
}

/// "tp0 tp1"
std::string axes_text(const DeviceMesh& mesh, const Axes& axes) {
  std::string text;
  for (const AxisId axis : axes) text += (text.empty() ? "" : " ") + mesh.axis_name(axis);
  return text;
}

/// Those on one mesh.
class MeshPeers {
 public:
  MeshPeers(const Graph& kernels, const ParallelConfig& parallel, std::string where,
            std::vector<NamedSharding>& found)
      : kernels_(kernels),
        mesh_(parallel.tensor_mesh),
        where_(std::move(where)),
        plan_(map_plan(parallel)),
        found_(found) {}

  std::size_t num_axes() const { return plan_.tensor.size(); }

  /// The batch over the first so many axes.
  void add_megatron(std::size_t batch) {
    const Axes front = axes(0, batch), behind = axes(batch, num_axes());
    MegatronPlan megatron;
    megatron.mesh = plan_.mesh;
    megatron.data = plan_.data;
    megatron.data.insert(megatron.data.end(), front.begin(), front.end());
    megatron.early = set_of(front);
    megatron.tensor = behind;
    const std::string over = batch == 0 ? "" : ", batch over " + axes_text(plan_.mesh, front);
    for (const bool sequence : {false, true}) {
      if (sequence && behind.empty()) continue;
      megatron.sequence_parallel = sequence;
      add(behind.empty() ? "batch over all axes"
          : sequence     ? "megatron, sequence parallel" + over
                         : "megatron" + over,
          plan_megatron(kernels_, megatron));
    }
  }

  /// The first so many axes by the rest.
  void add_atp(std::size_t first) {
    const AtpPlan atp{plan_.mesh, plan_.data, axes(0, first), axes(first, num_axes())};
    const std::string rows = first == 0 ? "1" : axes_text(plan_.mesh, atp.first);
    add("atp, " + rows + " by " + axes_text(plan_.mesh, atp.second), plan_atp(kernels_, atp));
  }

  /// With a group's samples on all its ranks it is Megatron's for speed.
  void add_smp() {
    SmpPlan smp{plan_.mesh, plan_.data, plan_.tensor, {}, {}};
    smp.enters_once = false;
    add("smp, for memory", plan_smp(kernels_, smp));
    smp.config.prescaled_batch = true;
    add("smp, for memory, samples of a group alike", plan_smp(kernels_, smp));
    smp.config = {SmpConfig::Optimize::kSpeed, false};
    add("smp, for speed", plan_smp(kernels_, smp));
  }

 private:
  Axes axes(std::size_t begin, std::size_t end) const {
    const auto at = [&](std::size_t axis) {
      return plan_.tensor.begin() + static_cast<std::ptrdiff_t>(axis);
    };
    return {at(begin), at(end)};
  }

  void add(std::string name, std::variant<PlannedGraph, Infeasible> planned) {
    if (auto* found = std::get_if<PlannedGraph>(&planned))
      found_.push_back({std::move(name) + where_, mesh_, std::move(*found)});
  }

  const Graph& kernels_;
  const std::vector<int>& mesh_;
  std::string where_;  // " on 4 x 2"
  MapPlan plan_;
  std::vector<NamedSharding>& found_;
};

/// Whether some first axes have so many ranks.
bool has_front(const std::vector<int>& mesh, int ranks) {
  int product = 1;
  for (const int size : mesh) product = product < ranks ? product * size : product;
  return product == ranks;
}

}  // namespace

std::vector<NamedSharding> peer_shardings(const Graph& kernels, const ParallelConfig& parallel,
                                          Family family, PeerMeshes meshes) {
  std::vector<NamedSharding> found;
  const bool atp = splits_family("atp", family);
  MeshPeers own(kernels, parallel, "", found);
  for (std::size_t batch = 0; batch <= own.num_axes(); ++batch) own.add_megatron(batch);
  for (std::size_t first = 0; atp && first < own.num_axes(); ++first) own.add_atp(first);
  if (splits_family("smp", family)) own.add_smp();
  if (meshes == PeerMeshes::kOwn) return found;
  for (int d1 = 2; d1 < parallel.tensor; ++d1) {
    if (parallel.tensor % d1 != 0 || has_front(parallel.tensor_mesh, d1)) continue;
    ParallelConfig other = parallel;
    const int d2 = parallel.tensor / d1;
    other.tensor_mesh = {d1, d2};
    MeshPeers peers(kernels, other, " on " + std::to_string(d1) + " x " + std::to_string(d2),
                    found);
    peers.add_megatron(1);
    if (atp) peers.add_atp(1);
  }
  return found;
}

}  // namespace trainyard
