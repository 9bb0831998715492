// partition: smp: where modules lie by their costs, and that every partition is a Program.
#include "app/plan_by_smp.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "app/analytic_step.h"
#include "engine/exec/costs.h"
#include "engine/partition/module_walk.h"
#include "engine/program/verify.h"
#include "tests/support/source_root.h"
#include "tests/support/studies.h"

namespace trainyard::plan_by_smp_test {

namespace {

using Sets = std::vector<std::string>;

/// Devices that have layers of each stack, or a module outside of them.
std::map<std::string, std::set<std::int32_t>> devices_of(const Prepared& prepared) {
  const ModelModules modules = model_modules(sharded_graph(prepared));
  const PartitionConfig& partition = prepared.study.partition;
  const auto found = assigned_devices(modules, partition.assign, partition.fallback);
  REQUIRE(std::holds_alternative<std::vector<std::int32_t>>(found));
  const auto& device = std::get<std::vector<std::int32_t>>(found);
  std::map<std::string, std::set<std::int32_t>> out;
  for (std::size_t m = 0; m < device.size(); ++m) {
    const std::string& path = modules.path[m];
    const std::size_t stack = path.find(".layers.");
    out[stack == std::string::npos ? path : path.substr(0, stack)].insert(device[m]);
  }
  return out;
}

std::string tiny(const std::string& model, const std::string& partition, int ranks) {
  return "model: " + model +
         "\ncluster: {preset: dgx-a100-80g, nodes: 1}\ntraining: {global_batch: 4}\n"
         "schedule: gpipe\nparallel: {data: 1, pipeline: " +
         std::to_string(ranks) + "}\npartition: " + partition + "\n";
}

}  // namespace

TEST_CASE("modules are weighed where a tensor group's ranks have samples of their own") {
  const Prepared prepared = prepare_text(
      tiny("{family: gpt, layers: 4, hidden: 64, heads: 4, vocab: 128, seq_len: 32}", "smp", 2),
      Sets{"parallel.tensor=2", "parallel.tensor_method=smp", "training.microbatch=1"});
  // 4 sequences are two microbatches of one on each of two ranks.
  CHECK(prepared.study.num_microbatches() == 2);
  CHECK_FALSE(find_violation(compiled_program(prepared)));
}

TEST_CASE("T5-11B is four encoder and four decoder devices by memory, three and five by time") {
  std::ifstream file(source_root() + "/configs/papers/smp-t5-11b.yaml");
  const std::string study((std::istreambuf_iterator<char>(file)), {});
  const auto by_memory = devices_of(prepare_text(study));
  // The stack itself is on the first of its devices, which has layers.
  CHECK(by_memory.at("encoder").size() == 4);
  CHECK(by_memory.at("decoder").size() == 4);
  const auto by_time = devices_of(prepare_text(study, {"partition.memory_weight=0.2"}));
  CHECK(by_time.at("encoder").size() == 3);
  CHECK(by_time.at("decoder").size() == 5);
  // One node with the table that both embeddings and the head share.
  for (const auto& devices : {by_memory, by_time}) CHECK(devices.at("lm_head").size() == 1);
}

TEST_CASE("any modules on any devices are a Program, or are refused with a reason") {
  std::mt19937 random(5);
  int compiled = 0;
  for (const std::string model :
       {"{family: gpt, layers: 3, hidden: 16, heads: 4, vocab: 40, seq_len: 8}",
        "{family: t5, layers: 2, hidden: 16, heads: 4, vocab: 40, seq_len: 8}",
        "{family: resnet, depth: 18, image_size: 32, classes: 5}",
        "{family: unet, hidden: 8, depth: 2, image_size: 16}"}) {
    const ModelModules modules =
        model_modules(sharded_graph(prepare_text(tiny(model, "uniform", 1))));
    for (int trial = 0; trial < 40; ++trial) {
      const int ranks = std::uniform_int_distribution(2, 4)(random);
      std::vector<std::int32_t> device;
      for (std::size_t m = 0; m < modules.path.size(); ++m) {
        const bool stays = m > 0 && std::uniform_int_distribution(0, 3)(random) > 0;
        const int other = std::uniform_int_distribution(0, ranks - 1)(random);
        device.push_back(modules.same[m] < m ? device[modules.same[m]]
                         : stays             ? device[modules.parent[m]]
                                             : other);
      }
      std::string assign;
      for (const auto& [path, rank] : assignment_of(modules, device))
        assign += (assign.empty() ? "" : ", ") + path + ": " + std::to_string(rank);
      const std::string routing = trial % 2 == 0 ? "parent" : "direct";
      const std::string study = tiny(model,
                                     "{method: smp, routing: " + routing + ", assign: {" + assign +
                                         "}, default: " + std::to_string(device[0]) + "}",
                                     ranks);
      CAPTURE(study);
      if (assign.empty()) continue;
      try {
        // Which verifies it: what is read has been written, what is sent is received, and all is
        // freed once.
        compiled_program(prepare_text(study));
        ++compiled;
      } catch (const ConfigError& error) {
        CHECK(std::string(error.what()).find("without a module that has parameters") !=
              std::string::npos);
      } catch (const std::runtime_error& error) {
        CHECK(std::string(error.what()).find("lies within an attention") != std::string::npos);
      }
    }
  }
  CHECK(compiled > 60);
}

TEST_CASE("in dynamic mode a transfer has a request, and each of its tensors metadata") {
  // Two tensors go with each call of a decoder's layer: what it reads, and the encoder's output.
  const std::string study =
      tiny("{family: t5, layers: 2, hidden: 16, heads: 4, vocab: 40, seq_len: 8}",
           "{method: smp, assign: {\"decoder.layers.1\": 1}}", 2) +
      "framework: sagemaker\n";
  const auto launches = [&](const Sets& sets) {
    const Prepared prepared = prepare_text(study, sets);
    const Program program = compiled_program(prepared);
    SourceLog sources;
    const Costs costs =
        make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, sources);
    std::map<std::string, std::vector<Seconds>> out;
    for (const SegmentId id : program.segments.keys()) {
      for (const OpCost& op : costs.ops.at(1.0)[id])
        out[program.segments[id].name].push_back(op.launch);
    }
    return out;
  };
  const auto dynamic = launches({});
  const auto fixed = launches({"schedule={method: gpipe, mode: static}"});
  REQUIRE(dynamic.size() == fixed.size());
  int sends = 0;
  for (const auto& [name, ops] : dynamic) {
    const std::vector<Seconds>& without = fixed.at(name);
    REQUIRE(ops.size() == without.size());
    const bool sent =
        name.find("SEND_") != std::string::npos || name.find("RECV_") != std::string::npos;
    sends += sent ? 1 : 0;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      CAPTURE(name, i);
      // calibrate/software/sagemaker.yaml: 200 us a request, 50 us a tensor.
      const Seconds more = !sent ? 0 : i == 0 ? 250e-6 : 50e-6;
      CHECK(ops[i] - without[i] == Approx(more).margin(1e-12));
    }
  }
  CHECK(sends == 8);  // sends and receives there and back, of activations and gradients
  CHECK(dynamic.at("0SEND_F").size() > 1);
}

TEST_CASE("stages that pass values on take no place in the order of gpipe") {
  // The first rank has its own layers and three stages that pass values on. As four stages of like
  // time it would have four times the work of the others, and the step be as much longer; without
  // them it only keeps a value until the forward under way ends.
  const std::string study =
      "model: {family: gpt, layers: 8, hidden: 1024, heads: 16, vocab: 64, seq_len: 512}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 1}\ntraining: {global_batch: 32}\n"
      "schedule: gpipe\nparallel: {data: 1, pipeline: 4}\npartition: smp\n";
  const auto step = [&](const Sets& sets) {
    const Prepared prepared = prepare_text(study, sets);
    return step_of(prepared, prepared.study, compiled_program(prepared), false).period;
  };
  CHECK(step({}) < 2 * step({"partition=uniform"}));
}

TEST_CASE("what is said of a partition adds up") {
  const std::string study = tiny(
      "{family: t5, layers: 4, hidden: 64, heads: 4, vocab: 40, "
      "seq_len: 8}",
      "{method: smp, memory_weight: 0.5}", 4);
  const Prepared prepared = prepare_text(study);
  double loads = 0;
  int ranks = 0;
  for (const std::string& line : prepared.study.planned) {
    const std::size_t at = line.find(" load ");
    if (at == std::string::npos) continue;
    loads += std::stod(line.substr(at + 6));
    ++ranks;
  }
  CHECK(ranks == 4);
  CHECK(loads == Approx(1).margin(4e-4));  // four numbers of four places
  CHECK(prepared.study.planned.front().find("model") != std::string::npos);
}

}  // namespace trainyard::plan_by_smp_test
