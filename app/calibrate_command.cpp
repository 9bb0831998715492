// `trainyard calibrate` without a device. --nccl-tests: curves of links from timed messages.
// --kernels: a device's profile from timed GEMMs. --fit: the free numbers of the software
// profiles, from published runs.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/commands.h"
#include "app/fit_profiles.h"
#include "calibrate/fit/link_fit.h"
#include "calibrate/result/link_text.h"
#include "calibrate/result/table_profile.h"
#include "calibrate/tables/kernel_table.h"
#include "engine/base/error.h"
#include "engine/base/format.h"
#include "engine/base/readable.h"
#include "engine/base/user_text.h"
#include "engine/cost/fastest_kernels.h"
#include "study/profile_reader.h"
#include "system/data_root.h"
#include "system/files.h"
#include "system/interrupt.h"
#include "system/output_folder.h"
#include "system/run_points.h"
#include "system/terminal.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ConfigError(path + ": cannot open");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// As JSON, where that was asked for, else as text.
void print_answer(const CalibrateOptions& options, const Json& json, const std::string& text) {
  const std::string answer =
      options.json ? json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n" : text;
  if (options.json)
    trainyard::print_answer(answer);
  else
    print_text(answer);
}

int write_links(const CalibrateOptions& options) {
  if (!options.fit.empty())
    throw ConfigError("--nccl-tests and --fit are two commands; write one of them");
  if (!options.out.ends_with(".yaml")) {
    throw ConfigError("--nccl-tests: --out names the .yaml file of links to write, got '" +
                      options.out + "'");
  }
  const LockedFile file(options.out);
  std::vector<MessageTable> tables;
  std::string names;
  for (const std::string& path : options.tables) {
    for (MessageTable& table : read_message_tables(file_text(path), path))
      tables.push_back(std::move(table));
    names +=
        (names.empty() ? "" : ", ") + printable(std::filesystem::path(path).filename().string());
  }
  write_file(options.out, link_text(tables, "Fitted to " + names));
  Json answer = {{"links", options.out}, {"tables", Json::array()}};
  std::string text;
  for (const MessageTable& table : tables) {
    const bool taken = (table.nodes == 1) == within_node(tables);
    Json entry = {{"kind", table.kind},
                  {"ranks", table.ranks},
                  {"nodes", table.nodes},
                  {"sizes", table.points.size()},
                  {"taken", taken}};
    text += format("%-14s %9s on %s, %s: ", table.kind.c_str(), plural(table.ranks, "rank").c_str(),
                   plural(table.nodes, "node").c_str(),
                   plural(static_cast<std::int64_t>(table.points.size()), "size").c_str());
    if (taken) {
      const double error = 100 * fit_messages(table.points).mean_error;
      entry["mean_error_percent"] = error;
      text += format("mean error of the fit %.1f %%\n", error);
    } else {
      text += "left out: links between nodes are a file of their own, from tables of them alone\n";
    }
    answer["tables"].push_back(std::move(entry));
  }
  text += "links " + plain_text(options.out) +
          ": put it into calibrate/links/ as KIND-DEVICE.yaml, or its curves into a cluster's "
          "intra or inter\n";
  print_answer(options, answer, text);
  return kDone;
}

/// Points of several tables; of a shape that several have the mean, weighted by how well each is
/// known.
void add_table(KernelTable& to, const KernelTable& more) {
  to.num_rows += more.num_rows;
  for (const auto& [form, points] : more.points) {
    for (const CurvePoint& point : points) add_point(to.points[form], point);
  }
}

std::string selected_device(const CalibrateOptions& options) {
  constexpr std::string_view kDevice = "device=";
  if (options.selections.empty()) return "";
  if (options.selections.size() > 1 || !options.selections.front().starts_with(kDevice))
    throw ConfigError("--kernels: --select takes device=NAME, once");
  return options.selections.front().substr(kDevice.size());
}

int write_profile(const CalibrateOptions& options) {
  if (!options.fit.empty() || !options.tables.empty())
    throw ConfigError(
        "--kernels, --nccl-tests and --fit are commands of their own; write one of them");
  if (!options.out.ends_with(".yaml"))
    throw ConfigError("--kernels: --out names the .yaml profile to write, got '" + options.out +
                      "'");
  const auto type = parse_dtype(options.type);
  if (!type) throw ConfigError("--type: expected a type such as bf16, got '" + options.type + "'");
  if (options.like.empty())
    throw ConfigError(
        "--kernels: --like names the profile that the device otherwise is like; list profiles has "
        "them");
  const auto like = find_hardware_profile(data_root(), options.like);
  if (!like)
    throw ConfigError("--like: no profile is called '" + options.like +
                      "'; list profiles has them");
  if (unsupported(*like, *type)) throw ConfigError("--type: " + *unsupported(*like, *type));
  const LockedFile file(options.out);
  KernelTable table;
  std::string names;
  for (const std::string& path : options.kernels) {
    add_table(table, read_kernel_table(file_text(path), path, *type, selected_device(options),
                                       kMostOverStated * like->peak.at(*type)));
    names +=
        (names.empty() ? "" : ", ") + printable(std::filesystem::path(path).filename().string());
  }
  const std::string text = table_profile_text(table, *like, "timed by others: " + names);
  // Read before it is written: a profile that is itself like another cannot be another's curves.
  read_hardware_profile(data_root(), "--like " + options.like, YamlNode::parse(text, options.out));
  write_file(options.out, text);
  Json answer = {{"profile", options.out},
                 {"like", options.like},
                 {"rows", table.num_rows},
                 {"curves", Json::array()}};
  std::string lines;
  const OpCurves curves(table.points);
  for (const auto& [form, points] : table.points) {
    Json entry = {
        {"form", to_string(form)}, {"shapes", points.size()}, {"left_out_error_percent", nullptr}};
    lines += format("%-28s %s", to_string(form).c_str(),
                    plural(static_cast<std::int64_t>(points.size()), "shape").c_str());
    if (points.size() > 1) {  // a single one has no others that predict it
      double error = 0;
      for (const double one : curves.left_out(form)) error += 100 * std::abs(std::expm1(one));
      error /= static_cast<double>(points.size());
      entry["left_out_error_percent"] = error;
      lines += format(", each predicted from the others to %.1f %%", error);
    }
    lines += "\n";
    answer["curves"].push_back(std::move(entry));
  }
  lines += format("profile %s of %s, otherwise like %s\n", plain_text(options.out).c_str(),
                  plural(static_cast<std::int64_t>(table.num_rows), "row").c_str(),
                  plain_text(options.like).c_str());
  lines += "a cluster of such devices: {preset: ..., device: " + plain_text(options.out) + "}\n";
  print_answer(options, answer, lines);
  return kDone;
}

}  // namespace

int run_calibrate(const CalibrateOptions& options) {
  if (!options.kernels.empty()) return write_profile(options);
  if (!options.tables.empty()) return write_links(options);
  if (options.fit.empty()) {
    throw ConfigError(
        "calibrate --device cpu --out PROFILE.yaml measures this machine, --nccl-tests FILE --out "
        "LINKS.yaml reads timed "
        "messages, --kernels FILE --like DEVICE --out PROFILE.yaml timed products, --fit "
        "CASES.yaml fits software profiles to published runs");
  }
  if (options.leave_one_out && !options.leave_out.empty()) {
    throw ConfigError(
        "--leave-out leaves out one family, --leave-one-out each in turn; write one of them");
  }
  std::optional<OutputFolder> folder;
  if (!options.out.empty())
    folder.emplace(options.out, WrittenBy{"calibrate --fit", options.fit}, options.overwrite);
  FitProfilesOptions fit_options;
  fit_options.selections = options.selections;
  fit_options.leave_out = options.leave_out;
  fit_options.leave_one_out = options.leave_one_out;
  fit_options.jobs = options.jobs;
  ProfileFit fit;
  const NotedSignals until_written;
  try {
    fit = fit_profiles(options.fit, fit_options);
  } catch (const Interrupted& by) {
    keeps("no better values had been found");
    return ended_by_signal(by.signal);
  }
  std::string json = fit_json(fit);
  if (folder) {
    json = folder->marked_json(json);
    for (const ProfileFit::File& file : fit.files)
      folder->write("software/" + file.name, file.text);
    folder->write("fit.json", json);
    folder->commit();
  }
  if (fit.signal != 0) {
    const std::string best =
        "the best values after " + std::to_string(fit.iterations) + " iterations";
    keeps(folder ? options.out + " has " + best : best + " are lost without --out");
    return ended_by_signal(fit.signal);
  }
  if (options.json)
    print_answer(json);
  else
    print_text(fit_text(fit));
  if (until_written.first() == 0) return kDone;
  keeps(folder ? options.out + " has the whole fit" : "the fit was done");
  return ended_by_signal(until_written.first());
}

}  // namespace trainyard
