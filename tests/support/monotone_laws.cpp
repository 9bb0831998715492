#include "tests/support/monotone_laws.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "app/simulation.h"
#include "engine/cluster/network.h"
#include "tests/support/studies.h"
#include "tests/support/study_outcome.h"

namespace trainyard {

namespace {

constexpr double kRounding = 1e-9;  // sums of some ten thousand times, in another order
constexpr double kTakenIn = 1e-3;   // start-ups that slow links take in, of a step
constexpr double kNothing = 1e-30;  // seconds, where a time has to be positive

struct Timed {
  Seconds step = 0;
  std::int64_t microbatches = 1;
  std::string digest;
  bool shares_links = false;
};

using Change = std::function<void(Prepared&)>;

std::string digits(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.12g", value);
  return text;
}

void halve_latencies(LinkCurve& curve) {
  curve.startup /= 2;
  curve.latency /= 2;
  curve.rank_latency /= 2;
  for (auto& [ranks, group] : curve.by_ranks) group.startup /= 2;
}

void halve_latencies(LinkClass& link) {
  halve_latencies(link.collective);
  halve_latencies(link.point_to_point);
  for (auto& [kind, curve] : link.by_kind) halve_latencies(curve);
  if (link.in_switch) halve_latencies(*link.in_switch);
}

void make_free(LinkClass& link) {
  link.bandwidth = std::numeric_limits<double>::max() / 1e20;
  link.collective = link.point_to_point = LinkCurve{};
  link.by_kind.clear();
  link.in_switch.reset();
}

/// Hosts that issue ops in no time.
void make_hosts_free(Prepared& prepared) {
  prepared.hardware.launch = kNothing;
  prepared.software.launch_factor = 1;
  prepared.software.launch_growth = 0;
}

/// Links and hosts that take no time.
void make_free(Prepared& prepared) {
  Cluster& cluster = prepared.study.cluster;
  make_free(cluster.intra);
  make_free(cluster.inter);
  cluster.p2p = true;
  cluster.fabric = {};
  cluster.pcie = {};
  make_hosts_free(prepared);
  prepared.software.synchronous_transfers = false;
}

class MonotoneLaws {
 public:
  explicit MonotoneLaws(const std::string& yaml) : yaml_(yaml) {}

  LawsHeld check() {
    base_ = time({}, {});
    if (!base_) return out_;
    out_.timed = true;
    links();
    devices();
    overlaps();
    microbatches();
    stages();
    return out_;
  }

 private:
  std::optional<Timed> time(std::vector<std::string> sets, const Change& change) const {
    sets.emplace_back("fidelity=analytic");
    try {
      std::vector<std::string> warnings;
      const StudyResolvers resolvers = make_resolvers(TRAINYARD_SOURCE_DIR, warnings);
      const Study study = read_study_node(YamlNode::parse(yaml_, "study.yaml"), sets, resolvers);
      if (!is_run_by_the_thousand(study)) return std::nullopt;
      Prepared prepared = prepare_study(study, resolvers);
      prepared.hardware.slowdown = {};
      if (change) change(prepared);
      auto answer = simulate(prepared, {}, {.verify = true});
      if (std::holds_alternative<Infeasible>(answer)) return std::nullopt;
      const Summary& summary = std::get<Simulation>(answer).summary;
      return Timed{summary.iteration_time, prepared.study.num_microbatches(),
                   summary.program_digest, Network(prepared.study.cluster).shares_links()};
    } catch (const ConfigError&) {
      return std::nullopt;
    } catch (const PlanError&) {
      return std::nullopt;
    }
  }

  /// `faster` takes no longer than `slower`.
  void compare(const char* law, const std::string& what, double slower, double faster,
               double longer = kRounding) {
    ++out_.comparisons;
    if (faster <= slower * (1 + longer)) return;
    out_.broken.push_back(std::string(law) + ": " + digits(slower) + ", " + what + " " +
                          digits(faster));
  }

  /// A change that leaves the Program as it is.
  void faster(const char* law, const std::string& what, const Change& change,
              double longer = kRounding) {
    const std::optional<Timed> with = time({}, change);
    if (with && with->digest == base_->digest) compare(law, what, base_->step, with->step, longer);
  }

  void links() {
    const std::pair<const char*, BytesPerSecond& (*)(Cluster&)> bandwidths[] = {
        {"intra", [](Cluster& c) -> BytesPerSecond& { return c.intra.bandwidth; }},
        {"inter", [](Cluster& c) -> BytesPerSecond& { return c.inter.bandwidth; }},
        {"host memory", [](Cluster& c) -> BytesPerSecond& { return c.host.memory; }},
        {"socket", [](Cluster& c) -> BytesPerSecond& { return c.host.link; }},
        {"PCIe uplink", [](Cluster& c) -> BytesPerSecond& { return c.pcie.uplink; }},
        {"fabric", [](Cluster& c) -> BytesPerSecond& { return c.fabric.link; }},
        {"global", [](Cluster& c) -> BytesPerSecond& { return c.fabric.global_link; }}};
    for (const auto& [name, of] : bandwidths) {
      faster(
          "link", std::string("twice the ") + name + " bandwidth",
          [of = of](Prepared& prepared) { of(prepared.study.cluster) *= 2; },
          base_->shares_links ? kTakenIn : kRounding);
    }
    faster("link", "half the intra latencies",
           [](Prepared& prepared) { halve_latencies(prepared.study.cluster.intra); });
    faster("link", "half the inter latencies",
           [](Prepared& prepared) { halve_latencies(prepared.study.cluster.inter); });
  }

  void devices() {
    faster("device", "1.25 times the speed", [](Prepared& prepared) {
      Cluster& cluster = prepared.study.cluster;
      for (std::int64_t device = 0; device < cluster.num_devices; ++device)
        cluster.speed.try_emplace(device, 1.0).first->second *= 1.25;
    });
    // A slow device sets its rank apart from those with which it shares links.
    if (base_->shares_links) return;
    faster("device", "no slow device", [](Prepared& prepared) {
      for (auto& [device, speed] : prepared.study.cluster.speed) speed = std::max(speed, 1.0);
    });
  }

  /// Hosts take no time: what is issued in the middle of a backward delays what comes behind it.
  void overlap(const std::string& what, const Change& without, const Change& with) {
    const auto timed = [&](const Change& change) {
      return time({}, [&](Prepared& prepared) {
        make_hosts_free(prepared);
        change(prepared);
      });
    };
    const std::optional<Timed> slower = timed(without), faster = timed(with);
    if (slower && faster) compare("overlap", what, slower->step, faster->step);
  }

  void overlaps() {
    const std::pair<const char*, bool SoftwareProfile::*> switches[] = {
        {"gradients reduced beside the backward", &SoftwareProfile::overlap_data_parallel},
        {"input gradients reduced beside weight gradients",
         &SoftwareProfile::overlap_tensor_gradient}};
    for (const auto& [what, flag] : switches) {
      // Where a forward and a backward are one segment, they are woven by where collectives stand.
      if (flag == &SoftwareProfile::overlap_tensor_gradient && has_schedule("dualpipe-v")) continue;
      overlap(
          what, [flag = flag](Prepared& prepared) { prepared.software.*flag = false; },
          [flag = flag](Prepared& prepared) { prepared.software.*flag = true; });
    }
    overlap(
        "no host waits for transfers",
        [](Prepared& prepared) {
          prepared.software.synchronous_transfers = true;
          prepared.software.streams_wait_where_split = false;
          prepared.software.streams_wait_where_interleaved = false;
        },
        [](Prepared& prepared) { prepared.software.synchronous_transfers = false; });
  }

  bool has_schedule(const std::string& word) const {
    return yaml_.find("schedule: " + word + "\n") != std::string::npos;
  }

  void microbatches() {
    if (!has_schedule("gpipe") && !has_schedule("1f1b") && !has_schedule("interleaved")) return;
    if (yaml_.find("microbatch: [") != std::string::npos) return;
    // 1F1B is of stages on ranks in their order: on others, more microbatches are another order.
    if (yaml_.find("on: [") != std::string::npos) return;
    const std::optional<Timed> twice =
        time({}, [](Prepared& prepared) { prepared.study.training.global_batch *= 2; });
    if (!twice || twice->microbatches != 2 * base_->microbatches) return;
    compare("microbatches", "twice as many, of each two", 2 * base_->step, twice->step);
  }

  void stages() {
    if (!has_schedule("1f1b") && !has_schedule("interleaved")) return;
    const auto of = [&](int stages) {
      return time({"parallel.virtual_stages=" + std::to_string(stages),
                   std::string("schedule=") + (stages == 1 ? "1f1b" : "interleaved")},
                  [](Prepared& prepared) { make_free(prepared); });
    };
    const std::optional<Timed> one = of(1);
    for (const int stages : {2, 4}) {
      const std::optional<Timed> several = one ? of(stages) : std::nullopt;
      if (several)
        compare("stages", std::to_string(stages) + " virtual stages", one->step, several->step);
    }
  }

  const std::string& yaml_;
  std::optional<Timed> base_;
  LawsHeld out_;
};

}  // namespace

LawsHeld check_monotone_laws(const std::string& yaml) { return MonotoneLaws(yaml).check(); }

}  // namespace trainyard
