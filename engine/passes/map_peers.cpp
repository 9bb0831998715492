#include "engine/passes/map_peers.h"

#include <cstddef>
#include <utility>

#include "engine/passes/plan_atp.h"
#include "engine/passes/plan_map.h"
#include "engine/passes/plan_megatron.h"
#include "engine/passes/plan_smp.h"

namespace trainyard {

namespace {

/// "tp0 tp1"
std::string axes_text(const DeviceMesh& mesh, const Axes& axes) {
  std::string text;
  for (const AxisId axis : axes) text += (text.empty() ? "" : " ") + mesh.axis_name(axis);
  return text;
}

Axes front_axes(const Axes& axes, std::size_t count) {
  return {axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(count)};
}

Axes rest_of_axes(const Axes& axes, std::size_t count) {
  return {axes.begin() + static_cast<std::ptrdiff_t>(count), axes.end()};
}

}  // namespace

std::vector<MapPeer> megatron_peers(const PeerMesh& on) {
  const MapPlan map = map_plan(on.parallel);
  std::vector<MapPeer> out;
  const std::size_t least = on.own ? 0 : 1, most = on.own ? map.tensor.size() : 1;
  for (std::size_t batch = least; batch <= most; ++batch) {
    const Axes front = front_axes(map.tensor, batch), behind = rest_of_axes(map.tensor, batch);
    MegatronPlan megatron;
    megatron.mesh = map.mesh;
    megatron.data = map.data;
    megatron.data.insert(megatron.data.end(), front.begin(), front.end());
    megatron.early = set_of(front);
    megatron.tensor = behind;
    const std::string over = batch == 0 ? "" : ", batch over " + axes_text(map.mesh, front);
    for (const bool sequence : {false, true}) {
      if (sequence && behind.empty()) continue;
      megatron.sequence_parallel = sequence;
      out.push_back({behind.empty() ? "batch over all axes"
                     : sequence     ? "megatron, sequence parallel" + over
                                    : "megatron" + over,
                     {megatron, plan_megatron}});
    }
  }
  return out;
}

std::vector<MapPeer> atp_peers(const PeerMesh& on) {
  const MapPlan map = map_plan(on.parallel);
  std::vector<MapPeer> out;
  const std::size_t least = on.own ? 0 : 1, end = on.own ? map.tensor.size() : 2;
  for (std::size_t first = least; first < end; ++first) {
    const AtpPlan atp{map.mesh, map.data, front_axes(map.tensor, first),
                      rest_of_axes(map.tensor, first)};
    const std::string rows = first == 0 ? "1" : axes_text(map.mesh, atp.first);
    out.push_back({"atp, " + rows + " by " + axes_text(map.mesh, atp.second), {atp, plan_atp}});
  }
  return out;
}

std::vector<MapPeer> smp_peers(const PeerMesh& on) {
  if (!on.own) return {};
  const MapPlan map = map_plan(on.parallel);
  SmpPlan smp{map.mesh, map.data, map.tensor, {}, {}};
  smp.enters_once = false;
  std::vector<MapPeer> out;
  out.push_back({"smp, for memory", {smp, plan_smp}});
  smp.config.prescaled_batch = true;
  out.push_back({"smp, for memory, samples of a group alike", {smp, plan_smp}});
  smp.config = {SmpConfig::Optimize::kSpeed, false};
  out.push_back({"smp, for speed", {smp, plan_smp}});
  return out;
}

}  // namespace trainyard
