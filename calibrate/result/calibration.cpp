#include "calibrate/result/calibration.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kForm = 2;  // of the file

Json tally_json(const LoadTally& tally) {
  return {{"time_s", tally.time},
          {"others_cpu_s", tally.others},
          {"stolen_cpu_s", tally.stolen},
          {"samples", tally.samples}};
}

LoadTally read_tally(const Json& json) {
  LoadTally tally;
  json.at("time_s").get_to(tally.time);
  json.at("others_cpu_s").get_to(tally.others);
  json.at("stolen_cpu_s").get_to(tally.stolen);
  json.at("samples").get_to(tally.samples);
  return tally;
}

Json set_json(const MeasuredSet& set) {
  Json out = {{"ranks", set.ranks},
              {"threads", set.threads},
              {"spent_s", set.spent},
              {"kept", tally_json(set.kept)},
              {"set_aside", tally_json(set.set_aside)},
              {"complete", set.complete},
              {"probes", set.probes},
              {"launches", set.launches},
              {"references", set.references},
              {"compute_slowdowns", set.compute_slowdowns},
              {"communication_slowdowns", set.communication_slowdowns},
              {"outliers", set.num_outliers},
              {"repeated", set.num_repeated}};
  Json points = Json::object();
  for (const auto& [form, curve] : set.points) {
    Json& list = points[to_string(form)] = Json::array();
    for (const CurvePoint& p : curve) {
      list.push_back(
          {p.shape[0], p.shape[1], p.shape[2], p.shape[3], p.flop, p.bytes, p.time, p.interval});
    }
  }
  out["points"] = points;
  Json messages = Json::object();
  for (const auto& [kind, sizes] : set.messages) {
    Json& list = messages[kind] = Json::array();
    for (const MessagePoint& m : sizes) list.push_back({m.bytes, m.time, m.interval});
  }
  out["messages"] = messages;
  return out;
}

MeasuredSet read_set(const Json& json) {
  MeasuredSet set;
  json.at("ranks").get_to(set.ranks);
  json.at("threads").get_to(set.threads);
  json.at("spent_s").get_to(set.spent);
  set.kept = read_tally(json.at("kept"));
  set.set_aside = read_tally(json.at("set_aside"));
  json.at("complete").get_to(set.complete);
  json.at("probes").get_to(set.probes);
  json.at("launches").get_to(set.launches);
  json.at("references").get_to(set.references);
  json.at("compute_slowdowns").get_to(set.compute_slowdowns);
  json.at("communication_slowdowns").get_to(set.communication_slowdowns);
  json.at("outliers").get_to(set.num_outliers);
  json.at("repeated").get_to(set.num_repeated);
  for (const auto& [name, list] : json.at("points").items()) {
    const auto form = parse_kernel_form(name);
    if (!form) throw ConfigError("no form of a kernel is called '" + name + "'");
    auto& curve = set.points[*form];
    for (const Json& p : list) {
      CurvePoint point;
      point.form = *form;
      for (std::size_t i = 0; i < 4; ++i) p.at(i).get_to(point.shape[i]);
      p.at(4).get_to(point.flop);
      p.at(5).get_to(point.bytes);
      p.at(6).get_to(point.time);
      p.at(7).get_to(point.interval);
      if (!(point.time > 0)) throw ConfigError("a kernel of '" + name + "' took no time");
      curve.push_back(point);
    }
  }
  for (const auto& [kind, list] : json.at("messages").items()) {
    for (const Json& m : list) {
      set.messages[kind].push_back(
          {m.at(0).get<Bytes>(), m.at(1).get<double>(), m.at(2).get<double>()});
    }
  }
  return set;
}

}  // namespace

MeasuredSet& Calibration::set_of(std::int64_t ranks) {
  const auto at = std::find_if(sets.begin(), sets.end(),
                               [&](const MeasuredSet& set) { return set.ranks >= ranks; });
  if (at != sets.end() && at->ranks == ranks) return *at;
  MeasuredSet set;
  set.ranks = ranks;
  return *sets.insert(at, std::move(set));
}

void add_point(std::vector<CurvePoint>& points, const CurvePoint& point) {
  const auto same = std::find_if(points.begin(), points.end(), [&](const CurvePoint& p) {
    return p.shape == point.shape && p.flop == point.flop && p.bytes == point.bytes;
  });
  if (same == points.end()) {
    points.push_back(point);
    return;
  }
  constexpr double kLeast = 0.005;
  const double a = 1 / std::pow(std::max(same->interval, kLeast), 2),
               b = 1 / std::pow(std::max(point.interval, kLeast), 2);
  const Seconds mean = (a * same->time + b * point.time) / (a + b);
  const double apart = std::max(std::abs(same->time - mean), std::abs(point.time - mean)) / mean;
  same->interval = std::max(1 / std::sqrt(a + b), apart);
  same->time = mean;
}

std::string calibration_json(const Calibration& calibration) {
  Json out = {{"form", kForm},
              {"device", calibration.origin.device},
              {"model", calibration.origin.model},
              {"version", calibration.origin.version},
              {"architecture", calibration.architecture},
              {"devices", calibration.devices},
              {"memory", calibration.memory},
              {"date", calibration.date},
              {"command", calibration.command}};
  out["sets"] = Json::array();
  for (const MeasuredSet& set : calibration.sets) out["sets"].push_back(set_json(set));
  return out.dump(1) + "\n";
}

Calibration read_calibration(const std::string& text, const std::string& file) {
  try {
    const Json json = Json::parse(text);
    if (json.at("form").get<int>() != kForm) throw ConfigError("written by another version");
    Calibration out;
    json.at("device").get_to(out.origin.device);
    json.at("model").get_to(out.origin.model);
    json.at("version").get_to(out.origin.version);
    json.at("architecture").get_to(out.architecture);
    json.at("devices").get_to(out.devices);
    json.at("memory").get_to(out.memory);
    json.at("date").get_to(out.date);
    json.at("command").get_to(out.command);
    for (const Json& set : json.at("sets")) out.sets.push_back(read_set(set));
    return out;
  } catch (const Json::exception& error) {
    throw ConfigError(file + ": no measurements to go on with (" + error.what() +
                      "); remove it to begin again");
  } catch (const ConfigError& error) {
    throw ConfigError(file + ": no measurements to go on with (" + error.problem() +
                      "); remove it to begin again");
  }
}

}  // namespace trainyard
