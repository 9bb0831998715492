// Every preset runs a small GPT, and the clusters of all published runs read.
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "app/prepare.h"
#include "app/simulation.h"
#include "study/data_folder.h"
#include "study/study_words.h"
#include "study/study_writer.h"
#include "study/yaml_reader.h"
#include "tests/support/source_root.h"
#include "tests/support/studies.h"

namespace trainyard::presets_test {

namespace {

constexpr const char* kModel =
    "model: {family: gpt, layers: 2, hidden: 256, heads: 8, vocab: 512, seq_len: 64}\n";

Seconds step_of(const std::string& study) {
  const auto answer = simulate(prepare_text(study), RunOptions{});
  REQUIRE(std::holds_alternative<Simulation>(answer));
  return std::get<Simulation>(answer).summary.iteration_time;
}

}  // namespace

TEST_CASE("every preset simulates a small GPT, on one node and on two") {
  for (const std::string& name : yaml_names(source_root() + "/topologies")) {
    CAPTURE(name);
    if (name == kLocalCluster) continue;
    const std::string rest =
        "training: {global_batch: 1152, precision: fp16}\nfidelity: analytic\n";
    const Seconds one = step_of(kModel + ("cluster: {preset: " + name + ", nodes: 1}\n") + rest);
    const Seconds two = step_of(kModel + ("cluster: {preset: " + name + ", nodes: 2}\n") + rest);
    CHECK(one > 0);
    CHECK(two < one);  // half of the samples each
  }
}

TEST_CASE("a study and its resolved text state the same sources") {
  // As sources of summary.json lists them, with what is extrapolated: kinds are counted from these.
  const auto sources_of = [](const Prepared& prepared) {
    RunOptions options;
    options.record_rows = false;
    const auto answer = simulate(prepared, options);
    REQUIRE(std::holds_alternative<Simulation>(answer));
    std::vector<std::string> lines;
    for (const SourceEntry& entry : std::get<Simulation>(answer).summary.sources) {
      lines.push_back(entry.name + " | " + entry.kind + " | " + entry.used_for + " | " +
                      entry.note + (entry.extrapolated ? " | extrapolated" : ""));
    }
    return lines;
  };
  const auto check_same = [&](const Prepared& prepared) {
    const std::vector<std::string> sources = sources_of(prepared);
    CHECK(sources.size() > 5);
    CHECK(sources_of(prepare_text(resolved_study_text(prepared.study))) == sources);
  };
  for (const std::string folder : {"/configs", "/configs/papers"}) {
    for (const std::string& name : yaml_names(source_root() + folder)) {
      CAPTURE(folder, name);
      check_same(prepare(source_root() + folder + "/" + name + ".yaml", {}, "analytic"));
    }
  }
  for (const std::string& name : yaml_names(source_root() + "/topologies")) {
    CAPTURE(name);
    if (name == kLocalCluster) continue;
    const std::string cluster =
        "cluster: {preset: " + name + ", nodes: 2}\nparallel: {pipeline: 2}\n";
    check_same(
        prepare_text(kModel + cluster +
                     "training: {global_batch: 1152, precision: fp16}\nfidelity: analytic\n"));
  }
}

TEST_CASE("the cluster of every published run reads, each spelling of it once") {
  const YamlNode runs = YamlNode::load_file(source_root() + "/calibrate/published/runs.yaml");
  std::set<std::string> seen;
  for (const YamlNode& row : runs.items()) {
    const YamlNode cluster = row.at("cluster");
    std::string text;
    for (const std::string& key : cluster.keys()) {
      const YamlNode value = cluster.at(key);
      text +=
          (text.empty() ? "" : ", ") + key + ": " + (value.is_null() ? "null" : value.as_string());
    }
    const std::int64_t gpus = cluster.at("gpus").as_integer();
    // What differs between runs of one machine is their number of GPUs.
    std::string machine = text;
    machine.erase(machine.find("gpus: "), machine.find(", gpus_per_node") - machine.find("gpus: "));
    if (!seen.insert(machine).second) continue;
    CAPTURE(text);
    CHECK(step_of(kModel +
                  ("cluster: {" + text + "}\ntraining: {global_batch: " + std::to_string(gpus) +
                   ", precision: fp16}\nfidelity: analytic\n")) > 0);
  }
  CHECK(seen.size() >= 25);
}

TEST_CASE("GPUs of one NVLink domain stay on NVLink, whatever their hosts") {
  const std::string rest =
      "parallel: {tensor: 8}\ntraining: {global_batch: 8, precision: bf16}\nfidelity: analytic\n";
  const std::string words =
      "gpu: gb200-186g, gpus: 8, gpus_per_node: 4, intra: nvlink, inter: infiniband, "
      "inter_gbit_per_s_per_node: 1600";
  const Seconds apart = step_of(kModel + ("cluster: {" + words + "}\n") + rest);
  const Seconds together =
      step_of(kModel + ("cluster: {" + words + ", nvlink_domain: 72}\n") + rest);
  CHECK(together < apart);
  // The same GPUs of the preset.
  CHECK(step_of(kModel + std::string("cluster: {preset: gb200-nvl72, devices: 8}\n") + rest) ==
        Approx(together));
}

TEST_CASE("nodes of a preset that is an NVLink domain are domains, where a study says one hosts") {
  const std::string rest =
      "parallel: {tensor: 8}\ntraining: {global_batch: 144, precision: bf16}\n";
  const auto cluster = [&](const std::string& words) {
    return prepare_text(kModel + ("cluster: {" + words + "}\n") + rest).study.cluster;
  };
  const Cluster racks = cluster("preset: gb200-nvl72, nodes: 2");
  CHECK(racks.num_devices == 2 * 72);
  CHECK(racks.num_nodes == 2);
  const Cluster hosts = cluster(
      "device: gb200-186g, devices_per_node: 4, nodes: 36, intra: nvswitch, "
      "inter: {kind: infiniband-ndr, bandwidth: 200 GB/s}, nvlink_domain: 72");
  CHECK(hosts.num_devices == 36 * 4);
  CHECK(hosts.num_nodes == 2);
  CHECK(hosts.devices_per_node == 72);
  // What is said of a host is there 18 times: memory of 960 GB.
  CHECK(racks.host.capacity == 18 * Bytes{960'000'000'000});
  // 32 hosts lie in two racks, 16 in each, however the racks are said.
  const Cluster of_preset = cluster("preset: gb200-nvl72, devices: 128"),
                of_hosts = cluster(
                    "device: gb200-186g, devices_per_node: 4, devices: 128, intra: nvswitch, "
                    "inter: {kind: infiniband-ndr, bandwidth: 200 GB/s}, nvlink_domain: 72");
  for (const Cluster& part : {of_preset, of_hosts}) {
    CHECK(part.num_nodes == 2);
    CHECK(part.devices_per_node == 64);
    CHECK(part.num_nics() == 64);
    CHECK(part.inter.bandwidth == Approx(racks.inter.bandwidth * 16 / 18));
  }
  CHECK(of_preset.host.capacity == 16 * Bytes{960'000'000'000});
}

}  // namespace trainyard::presets_test
