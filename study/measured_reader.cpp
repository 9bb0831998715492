#include "study/measured_reader.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/format.h"
#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "engine/cost/fastest_kernels.h"
#include "study/profile_reader.h"

namespace trainyard {

namespace {

constexpr double kMostSeconds = 1e6;
constexpr std::int64_t kMostExtent = std::int64_t{1} << 40;
constexpr std::size_t kMostPoints = 500;  // a curve's cost grows with their square

double number_between(const YamlNode& node, double least, double most) {
  const double value = node.as_number();
  if (!(value >= least) || value > most) {
    node.fail("expected " + number_text(least) + " to " + number_text(most) + ", got " +
              number_text(value));
  }
  return value;
}

CurvePoint read_point(const YamlNode& node) {
  const std::vector<YamlNode> items = node.items();
  if (items.size() != 8) node.fail(std::string("expected 8 numbers: ") + kPointColumns);
  CurvePoint point;
  for (std::size_t i = 0; i < point.shape.size(); ++i)
    point.shape[i] = items[i].as_integer(0, kMostExtent);
  point.flop = number_between(items[4], 0, kMostPointFlop);
  point.bytes = items[5].as_integer(0, kMostPointBytes);
  point.time = number_between(items[6], 1e-6, kMostSeconds * 1e6) * 1e-6;
  point.interval = number_between(items[7], 0, kMostInterval);
  if (point.bytes == 0 && point.flop == 0)
    node.fail("expected a kernel that computes or moves something");
  return point;
}

/// The points of a profile with their places.
struct PointPlaces {
  FastestKernels fastest;
  std::vector<YamlNode> nodes;  // by the id in `fastest`
};

std::pair<std::vector<CurvePoint>, Provenance> read_entry(const YamlNode& node,
                                                          const KernelForm& form,
                                                          PointPlaces& places) {
  const YamlNode points = node.at("points");
  std::vector<CurvePoint> read;
  for (const YamlNode& point : points.items()) {
    read.push_back(read_point(point));
    read.back().form = form;
    places.fastest.add(read.back(), places.nodes.size());
    places.nodes.push_back(point);
  }
  if (read.empty()) points.fail("expected at least one point");
  if (read.size() > kMostPoints)
    points.fail("expected at most " + std::to_string(kMostPoints) + " points");
  Provenance provenance = read_provenance(node);
  node.finish();
  return {std::move(read), std::move(provenance)};
}

MeasuredKernels read_set(const YamlNode& node, PointPlaces& places) {
  MeasuredKernels set;
  set.ranks = node.at("ranks").as_integer(1, 1 << 20);
  const YamlNode launch = node.at("launch");
  set.launch = launch.at("time").as_duration();
  if (set.launch < 0) launch.at("time").fail("expected a duration of at least 0");
  set.launch_provenance = read_provenance(launch);
  launch.finish();
  if (const auto slowdown = node.find("slowdown")) set.slowdown = read_slowdown(*slowdown);
  if (const auto repeatability = node.find("repeatability")) {
    set.repeatability = read_provenance(*repeatability);
    repeatability->finish();
  }
  const YamlNode columns = node.at("columns");
  if (columns.as_string() != kPointColumns)
    columns.fail(std::string("expected ") + in_quotes(kPointColumns));
  const YamlNode curves = node.at("curves");
  std::map<KernelForm, std::vector<CurvePoint>> points;
  for (const std::string& name : curves.keys()) {
    const YamlNode entry = curves.at(name);
    const std::optional<KernelForm> form = parse_kernel_form(name);
    if (!form)
      entry.fail("expected a form of a kernel such as 'linear bf16 bf16 -> bf16', got " +
                 in_quotes(name));
    auto [of_form, provenance] = read_entry(entry, *form, places);
    points.emplace(*form, std::move(of_form));
    set.forms.emplace(*form, std::move(provenance));
  }
  set.curves = OpCurves(points);
  node.finish();
  set.interval_factor = set.curves.interval_factor();
  return set;
}

std::string percent_over(double rate, double stated) {
  return format("%.0f %% above ", 100 * (rate / stated - 1));
}

/// A profile that contradicts itself was not measured on one machine, or not in one state of it.
void check_rates(const PointPlaces& places, const HardwareProfile& stated) {
  for (const auto& [type, best] : places.fastest.products()) {
    const auto peak = stated.peak.find(type);
    if (peak == stated.peak.end() || best.rate <= kMostOverStated * peak->second) continue;
    places.nodes[best.id].fail(
        format("a kernel at %.4g GFLOP/s, ", best.rate / 1e9) +
        percent_over(best.rate, peak->second) + "the peak of " + std::string(to_string(type)) +
        format(" that the profile states, %.4g GFLOP/s; one of the two is wrong: measure again",
               peak->second / 1e9));
  }
  const auto mover = places.fastest.mover();
  if (!mover || mover->rate <= kMostOverStated * stated.memory_bandwidth) return;
  places.nodes[mover->id].fail(
      format("a kernel that moves %.4g GB/s, ", mover->rate / 1e9) +
      percent_over(mover->rate, stated.memory_bandwidth) +
      format("the bandwidth that the profile states, %.4g GB/s; one of the two is wrong: measure "
             "again",
             stated.memory_bandwidth / 1e9));
}

}  // namespace

std::vector<std::shared_ptr<const MeasuredKernels>> read_measured_kernels(
    const YamlNode& node, const HardwareProfile& stated) {
  std::vector<std::shared_ptr<const MeasuredKernels>> sets;
  PointPlaces places;
  for (const YamlNode& item : node.items()) {
    sets.push_back(std::make_shared<const MeasuredKernels>(read_set(item, places)));
    if (sets.size() > 1 && sets.back()->ranks <= sets[sets.size() - 2]->ranks) {
      item.at("ranks").fail("expected more than the entry before, " +
                            std::to_string(sets[sets.size() - 2]->ranks));
    }
  }
  if (sets.empty())
    node.fail("expected a list with an entry for each number of ranks that was measured");
  check_rates(places, stated);
  return sets;
}

}  // namespace trainyard
