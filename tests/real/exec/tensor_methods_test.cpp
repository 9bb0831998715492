// Methods auto and smp, and chosen modules, train as one device does.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/real/exec/as_one_device.h"
#include "tests/real/layouts.h"
#include "tests/real/parity.h"

namespace trainyard::tensor_methods_test {

namespace {

const std::string kTraining = "precision: fp64, clip_norm: 0.01, lr: {peak: 0.01}, dropout: ";

std::string study(const std::string& family) {
  return parity_study(family, kTraining + (family == "llama" ? "0" : "0.1"));
}

Sets on_ranks(int tensor, const std::string& method, const Sets& more = {}) {
  const std::string ranks = std::to_string(tensor);
  return joined(
      {"cluster.ranks=" + ranks, "parallel.tensor=" + ranks, "parallel.tensor_method=" + method},
      more);
}

}  // namespace

TEST_CASE("chosen modules train as one device does") {
  const std::vector<Sets> choices = {{"parallel.tensor_modules=['*.mlp']"},
                                     {"parallel.tensor_modules=['*attention']"},
                                     {"parallel.tensor_modules=['*attention.qkv', '*.mlp.fc2']"},
                                     {"parallel.tensor_modules=['*.layers.1*']"}};
  for (const std::string family : {"gpt", "bert", "llama"}) {
    const LoopbackRun one = run_loopback(study(family), {}, {.steps = 2});
    for (const Sets& choice : choices) {
      if (family == "llama" && choice[0].find("fc2") != std::string::npos) continue;
      for (const std::string sequence : {"false", "true"}) {
        CAPTURE(family, choice, sequence);
        const Sets sets = joined(choice, {"parallel.sequence_parallel=" + sequence});
        check_same(one, run_loopback(study(family), on_ranks(2, "megatron", sets), {.steps = 2}),
                   kFp64);
      }
    }
  }
}

TEST_CASE("tables of method auto train as one device does") {
  const std::string gathers =
      "{name: auto, table: {'*.mlp.fc1': {dim: 0, collective: all_gather}, '*.mlp.fc2': {dim: 0, "
      "collective: all_gather}}}";
  const std::string features =
      "{name: auto, table: {embedding.positions: {dim: 1, collective: all_gather}}}";
  const LoopbackRun one = run_loopback(study("gpt"), {}, {.steps = 2});
  for (const std::string& method : {std::string("auto"), gathers, features}) {
    CAPTURE(method);
    check_same(one, run_loopback(study("gpt"), on_ranks(4, method), {.steps = 2}), kFp64);
  }
}

TEST_CASE("method smp trains as one device does, in both of its modes") {
  for (const std::string family : {"gpt", "bert", "bert-next", "llama", "t5"}) {
    const LoopbackRun one = run_loopback(study(family), {}, {.steps = 2});
    for (const std::string mode : {"memory", "speed"}) {
      for (const std::string prescaled : {"false", "true"}) {
        CAPTURE(family, mode, prescaled);
        const std::string method =
            "{name: smp, optimize: " + mode + ", prescaled_batch: " + prescaled + "}";
        check_same(one, run_loopback(study(family), on_ranks(2, method), {.steps = 2}), kFp64);
      }
    }
  }
}

TEST_CASE("modules that method smp distributes by themselves train as one device does") {
  const std::vector<Sets> choices = {{"parallel.tensor_modules=['*.layers.*']"},
                                     {"parallel.tensor_modules=['*.mlp']"},
                                     {"parallel.tensor_modules=['*attention', '*.fc1']"},
                                     {"parallel.tensor_modules=['embedding.positions', '*.fc2']"}};
  for (const std::string family : {"gpt", "t5"}) {
    const LoopbackRun one = run_loopback(study(family), {}, {.steps = 2});
    for (const Sets& choice : choices) {
      if (family == "t5" && choice[0].find("positions") != std::string::npos) continue;
      for (const std::string mode : {"memory", "speed"}) {
        CAPTURE(family, choice, mode);
        const Sets sets = on_ranks(2, "{name: smp, optimize: " + mode + "}", choice);
        check_same(one, run_loopback(study(family), sets, {.steps = 2}), kFp64);
      }
    }
  }
}

TEST_CASE("method smp trains models of users and items, and of images, as one device does") {
  const Sets tables = {"parallel.tensor_modules=['*.users', '*.items']"};
  const std::string prescaled = "{name: smp, prescaled_batch: true}";
  check_all(study_of("{family: ncf, layers: 3, hidden: 4, users: 30, items: 20}", 16, 4),
            {on_ranks(4, "smp", tables), on_ranks(4, prescaled, tables), on_ranks(2, "smp"),
             on_ranks(4, prescaled),
             joined(on_ranks(2, "smp", tables),
                    {"cluster.ranks=4", "parallel.data=2", "parallel.zero=1"})},
            2);
  check_all(
      study_of("{family: vit, layers: 2, hidden: 32, heads: 4, image_size: 12, patch_size: "
               "4, classes: 6}",
               8, 2),
      {on_ranks(2, "smp"), on_ranks(4, "{name: smp, optimize: speed}"), on_ranks(2, prescaled),
       on_ranks(4, "smp", {"parallel.tensor_modules=['encoder.layers.*', head]"})},
      2);
}

TEST_CASE("a run of method smp goes on from other layouts, and they from it") {
  check_goes_on(study("gpt"), on_ranks(2, "smp"),
                {{},
                 {"cluster.ranks=2", "parallel.tensor=2"},
                 on_ranks(4, "{name: smp, optimize: speed}"),
                 on_ranks(2, "smp", {"parallel.tensor_modules=['*.mlp']"})});
  // What is not distributed has its state divided over replicas and the tensor group.
  check_goes_on(
      study("gpt"),
      on_ranks(2, "smp",
               {"parallel.tensor_modules=['*.mlp']", "cluster.ranks=4", "parallel.data=2",
                "parallel.zero=1"}),
      {{}, on_ranks(2, "smp"), {"cluster.ranks=2", "parallel.data=2", "parallel.zero=1"}});
  check_goes_on(study("gpt"),
                on_ranks(2, "smp", {"parallel.tensor_modules=['*.mlp']", "parallel.zero=3"}),
                {{}, on_ranks(2, "smp")});
  // Beside owners of what is distributed, too.
  check_goes_on(
      study("gpt"),
      on_ranks(2, "smp",
               {"parallel.tensor_modules=['*.mlp']", "cluster.ranks=4", "parallel.data=2",
                "parallel.zero={stage: 1, by: parameter}"}),
      {{}, on_ranks(2, "smp"), {"cluster.ranks=2", "parallel.data=2", "parallel.zero=1"}});
  // So has the weight that the first stage and the last one share.
  check_goes_on(study("gpt"),
                on_ranks(2, "smp",
                         {"parallel.tensor_modules=['*.mlp']", "cluster.ranks=8", "parallel.data=2",
                          "parallel.pipeline=2", "parallel.zero=1"}),
                {{}, on_ranks(2, "smp"), {"cluster.ranks=2", "parallel.pipeline=2"}});
}

TEST_CASE("a tensor group with the same samples divides what it has alike, and trains so") {
  const std::vector<Sets> divided = {
      {"parallel.zero=1"},
      {"parallel.zero={stage: 2, reduce: each}"},
      {"parallel.zero={stage: 2, reduce: last}"},
      {"parallel.zero=3"},
      {"parallel.zero={stage: 3, layout: per-parameter, reduce: last}"},
      {"parallel.zero={stage: 1, offload: optimizer}"},
      {"cluster.ranks=4", "parallel.data=2", "parallel.zero=1"},
      {"cluster.ranks=4", "parallel.data=2", "parallel.zero=2"},
      {"cluster.ranks=4", "parallel.data=2", "parallel.zero=3"},
      {"cluster.ranks=4", "parallel.data=2", "parallel.zero={stage: 3, layout: per-parameter}"},
      {"cluster.ranks=8", "parallel.data=4", "parallel.zero={stage: 3, replicate: 2}"},
      {"cluster.ranks=8", "parallel.data=4", "parallel.zero={stage: 3, reshard_after_forward: 2}"},
      {"cluster.ranks=4", "parallel.pipeline=2", "schedule=zb-h1", "parallel.zero=1"},
      {"cluster.ranks=8", "parallel.pipeline=2", "schedule=1f1b", "parallel.data=2",
       "parallel.zero={stage: 2, reduce: each}"},
      {"parallel.zero={stage: 1, by: parameter}"},
      {"cluster.ranks=4", "parallel.data=2", "parallel.zero={stage: 1, by: parameter}"},
      {"cluster.ranks=8", "parallel.pipeline=2", "schedule=1f1b", "parallel.data=2",
       "parallel.zero={stage: 1, by: parameter}"}};
  const LoopbackRun one = run_loopback(study("gpt"), {}, {.steps = 2});
  for (const std::string mode : {"memory", "speed"}) {
    const std::string method = "{name: smp, optimize: " + mode + ", prescaled_batch: true}";
    for (const Sets& sets : divided) {
      CAPTURE(mode, sets);
      const Sets some = on_ranks(2, method, {"parallel.tensor_modules=['*.mlp']"});
      check_same(one, run_loopback(study("gpt"), joined(some, sets), {.steps = 2}), kFp64);
    }
  }
  const Sets some =
      on_ranks(2, "{name: smp, prescaled_batch: true}", {"parallel.tensor_modules=['*.mlp']"});
  for (const Sets& sets : {divided[0], divided[9], divided[13], divided[15]})
    check_goes_on(study("gpt"), joined(some, sets), {{}, on_ranks(2, "smp"), some});
  // Not-prescaled ranks compute norms for the samples of all, in the mode for speed.
  check_same(
      one,
      run_loopback(study("gpt"), on_ranks(2, "{name: smp, optimize: speed}", {"parallel.zero=1"}),
                   {.steps = 2}),
      kFp64);
}

TEST_CASE("method smp trains as one device does beside other features") {
  const std::vector<Sets> features = {
      {"training.flash_attention=false"},
      {"recompute=full"},
      {"recompute=full", "offload={activations: true, horizon: 1}"},
      {"cluster.ranks=4", "parallel.data=2"},
      {"cluster.ranks=4", "parallel.data=2", "parallel.zero={stage: 0, reduce: each}"},
      {"cluster.ranks=4", "parallel.data=2", "parallel.zero={stage: 1, by: parameter}"},
      {"cluster.ranks=4", "parallel.data=2", "parallel.zero=1"},
      {"cluster.ranks=4", "parallel.data=2", "parallel.zero=2"},
      {"cluster.ranks=4", "parallel.data=2", "parallel.zero=3"},
      {"parallel.zero=1"},
      {"parallel.zero={stage: 1, by: parameter}"},
      {"parallel.zero=2"},
      {"parallel.zero=3"},
      {"cluster.ranks=4", "parallel.data=2", "parallel.zero={stage: 3, layout: per-parameter}"},
      {"cluster.ranks=4", "parallel.pipeline=2", "schedule=1f1b"},
      {"cluster.ranks=8", "parallel.pipeline=2", "schedule=1f1b", "parallel.data=2",
       "parallel.zero=1"}};
  const LoopbackRun one = run_loopback(study("gpt"), {}, {.steps = 2});
  for (const Sets& feature : features) {
    for (const std::string choice : {"['*']", "['*.mlp']"}) {
      CAPTURE(feature, choice);
      const Sets sets = on_ranks(2, "smp", {"parallel.tensor_modules=" + choice});
      check_same(one, run_loopback(study("gpt"), joined(sets, feature), {.steps = 2}), kFp64);
    }
  }
}

}  // namespace trainyard::tensor_methods_test
