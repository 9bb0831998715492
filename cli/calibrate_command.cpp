// `trainyard calibrate` without a device. --nccl-tests: curves of links from timed messages. --fit: the free numbers of the software profiles, from published runs.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "cli/command_line.h"
#include "cli/files.h"
#include "cli/fit_profiles.h"
#include "engine/base/error.h"
#include "engine/calibrate/link_fit.h"
#include "engine/calibrate/link_text.h"

namespace trainyard {

namespace {

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ConfigError(path + ": cannot open");
  return {std::istreambuf_iterator<char>(file), {}};
}

int write_links(const CalibrateOptions& options) {
  if (!options.fit.empty()) throw ConfigError("--nccl-tests and --fit are two commands; write one of them");
  if (!options.out.ends_with(".yaml")) {
    throw ConfigError("--nccl-tests: --out names the .yaml file of links to write, got '" + options.out + "'");
  }
  std::vector<MessageTable> tables;
  std::string names;
  for (const std::string& path : options.tables) {
    for (MessageTable& table : read_message_tables(file_text(path), path)) tables.push_back(std::move(table));
    names += (names.empty() ? "" : ", ") + std::filesystem::path(path).filename().string();
  }
  write_file(options.out, link_text(tables, "Fitted to " + names));
  for (const MessageTable& table : tables) {
    const bool taken = (table.nodes == 1) == within_node(tables);
    std::printf("%-14s %4lld ranks on %lld nodes, %zu sizes: ", table.kind.c_str(), static_cast<long long>(table.ranks),
                static_cast<long long>(table.nodes), table.points.size());
    if (taken) std::printf("mean error of the fit %.1f %%\n", 100 * fit_messages(table.points).mean_error);
    else std::printf("left out: links between nodes are a file of their own, from tables of them alone\n");
  }
  std::printf("links %s: put it into calibrate/links/ as KIND-DEVICE.yaml, or its curves into a cluster's intra or inter\n",
              options.out.c_str());
  return kDone;
}

}  // namespace

int run_calibrate(const CalibrateOptions& options) {
  if (!options.tables.empty()) return write_links(options);
  if (options.fit.empty()) {
    throw ConfigError(
        "calibrate --device cpu --out PROFILE.yaml measures this machine, --nccl-tests FILE --out LINKS.yaml reads timed "
        "messages, --fit CASES.yaml fits software profiles to published runs");
  }
  if (options.leave_one_out && !options.leave_out.empty()) {
    throw ConfigError(
        "--leave-out leaves out one family, --leave-one-out each in turn; write one of them");
  }
  FitProfilesOptions fit_options;
  fit_options.selections = options.selections;
  fit_options.leave_out = options.leave_out;
  fit_options.leave_one_out = options.leave_one_out;
  fit_options.jobs = options.jobs;
  const ProfileFit fit = fit_profiles(options.fit, fit_options);
  const std::string json = fit_json(fit);
  if (!options.out.empty()) {
    make_folder(options.out + "/software");
    for (const ProfileFit::File& file : fit.files)
      write_file(options.out + "/software/" + file.name, file.text);
    write_file(options.out + "/fit.json", json);
  }
  const std::string text = options.json ? json : fit_text(fit);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kDone;
}

}  // namespace trainyard
