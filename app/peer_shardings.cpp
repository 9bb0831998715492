#include "app/peer_shardings.h"

#include <cstddef>
#include <utility>
#include <variant>

#include "engine/passes/plan_atp.h"
#include "engine/passes/plan_megatron.h"

namespace trainyard {

namespace {

class PeerShardings {
 public:
  PeerShardings(const Graph& kernels, const MapPlan& plan) : kernels_(kernels), plan_(plan) {}

  void add_megatron() {
    for (std::size_t batch = 0; batch <= plan_.tensor.size(); ++batch) {
      const Axes front = axes(0, batch), behind = axes(batch, plan_.tensor.size());
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
  }

  void add_atp() {
    for (std::size_t first = 1; first < plan_.tensor.size(); ++first) {
      const AtpPlan atp{plan_.mesh, plan_.data, axes(0, first), axes(first, plan_.tensor.size())};
      add("atp, " + axes_text(plan_.mesh, atp.first) + " by " + axes_text(plan_.mesh, atp.second),
          plan_atp(kernels_, atp));
    }
  }

  std::vector<NamedSharding> take() { return std::move(found_); }

 private:
  Axes axes(std::size_t begin, std::size_t end) const {
    const auto at = [&](std::size_t axis) {
      return plan_.tensor.begin() + static_cast<std::ptrdiff_t>(axis);
    };
    return {at(begin), at(end)};
  }

  void add(std::string name, std::variant<PlannedGraph, Infeasible> planned) {
    if (auto* found = std::get_if<PlannedGraph>(&planned))
      found_.push_back({std::move(name), std::move(*found)});
  }

  const Graph& kernels_;
  const MapPlan& plan_;
  std::vector<NamedSharding> found_;
};

}  // namespace

std::vector<NamedSharding> peer_shardings(const Graph& kernels, const MapPlan& plan,
                                          Family family) {
  PeerShardings out(kernels, plan);
  out.add_megatron();
  const bool of_layers = family == Family::kGpt || family == Family::kBert ||
                         family == Family::kLlama || family == Family::kT5 ||
                         family == Family::kVit || family == Family::kClip;
  if (of_layers) out.add_atp();
  return out.take();
}

std::string axes_text(const DeviceMesh& mesh, const Axes& axes) {
  std::string text;
  for (const AxisId axis : axes) text += (text.empty() ? "" : " ") + mesh.axis_name(axis);
  return text;
}

}  // namespace trainyard
