// partition: smp: what a study may say of modules on devices, and what follows.
#include <catch2/catch.hpp>
#include <string>

#include "app/analytic_step.h"
#include "engine/program/program_text.h"
#include "study/study_origin.h"
#include "study/study_writer.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/studies.h"

namespace trainyard::module_devices_test {

namespace {

/// Four layers on four devices.
std::string study_with(const std::string& partition, const std::string& parallel = "{pipeline: 4}",
                       const std::string& rest = "schedule: gpipe\n") {
  return "model: {family: t5, layers: 2, hidden: 64, heads: 4, vocab: 64, seq_len: 16}\n"
         "cluster: {preset: dgx-a100-80g, devices: 4}\n"
         "training: {global_batch: 16, microbatch: 1}\n"
         "parallel: " +
         parallel + "\npartition: " + partition + "\n" + rest;
}

Seconds step(const std::string& study) {
  const Prepared prepared = prepare_text(study);
  return step_of(prepared, prepared.study, compiled_program(prepared), false).period;
}

std::string fault(const std::string& study) {
  return error_of([&] { prepare_text(study); });
}

std::string digest_of(const std::string& study) {
  return program_digest(compiled_program(prepare_text(study)));
}

const std::string kTwo = "{method: smp, assign: {encoder: 1}}";

}  // namespace

TEST_CASE("stages follow from where modules lie") {
  // The embedding, the encoder, and the rest on the first device again.
  const Study by_hand = prepare_text(study_with(kTwo, "{}")).study;
  CHECK(by_hand.partition.on == Numbered<std::int32_t>{0, 1, 0});
  CHECK(by_hand.num_stages() == 3);
  CHECK(by_hand.parallel.pipeline == 2);
  CHECK(by_hand.parallel.data == 2);
}

TEST_CASE("a chain of devices is as cuts between them, under every schedule") {
  const std::string llama =
      "model: {family: llama, layers: 4, hidden: 64, heads: 4, vocab: 64, seq_len: 16}\n"
      "cluster: {preset: dgx-a100-80g, devices: 2}\n"
      "training: {global_batch: 16, microbatch: 1}\nparallel: {pipeline: 2}\n";
  const std::string modules =
      "partition: {method: smp, routing: ROUTING, default: 1, assign: "
      "{embedding: 0, decoder.layers.0: 0, decoder.layers.1: 0}}\n";
  for (const std::string schedule : {"gpipe", "1f1b", "zb-h1", "opportunistic"}) {
    for (const std::string routing : {"parent", "direct"}) {
      std::string by_modules = modules;
      by_modules.replace(by_modules.find("ROUTING"), 7, routing);
      const std::string rest = "schedule: " + schedule + "\n";
      CAPTURE(schedule, routing);
      CHECK(prepare_text(llama + by_modules + rest).study.partition.on.empty());
      // The Programs differ in the modules that their transfers are named for.
      CHECK(step(llama + by_modules + rest) == step(llama + "partition: [2]\n" + rest));
    }
  }
}

TEST_CASE("the resolved study says where modules lie, and the same Program follows from it") {
  for (const std::string text :
       {"smp", "{method: smp, memory_weight: 0.2, routing: direct}",
        "{method: smp, times: descendants}", "{method: smp, memory_weight: 1}"}) {
    for (const std::string schedule : {"gpipe", "opportunistic"}) {
      const std::string study = study_with(text, "{pipeline: 4}", "schedule: " + schedule + "\n");
      CAPTURE(study);
      const Prepared prepared = prepare_text(study);
      CHECK(prepared.study.origins.at("partition").kind == Origin::Kind::kDerived);
      CHECK(!prepared.study.partition.assign.empty());
      CHECK(!prepared.study.planned.empty());
      CHECK(digest_of(resolved_study_text(prepared.study)) ==
            program_digest(compiled_program(prepared)));
    }
  }
}

TEST_CASE("mode fast sends from module to module") {
  const std::string fast = "schedule: {method: opportunistic, mode: fast}\n";
  const Study study = prepare_text(study_with("smp", "{pipeline: 4}", fast)).study;
  CHECK(study.partition.routing == PartitionConfig::Routing::kDirect);
  CHECK(fault(study_with("{method: smp, routing: parent}", "{pipeline: 4}", fast)) ==
        "study.yaml:5:35: partition.routing: schedule.mode fast sends from module to module; write "
        "direct, or leave this key out");
}

TEST_CASE("what does not go with modules on devices is refused where it is said") {
  const std::string at = "study.yaml:5:";
  CHECK(fault(study_with("smp", "{}")) ==
        "study.yaml:4:11: parallel.pipeline: partition smp divides modules among the pipeline "
        "ranks; say how many");
  CHECK(fault(study_with("smp", "{pipeline: 4, virtual_stages: 2}")) ==
        "study.yaml:4:41: parallel.virtual_stages: partition smp says which stages a rank has; "
        "leave this key out");
  CHECK(fault(study_with(kTwo, "{pipeline: 4}")) ==
        at + "34: partition.assign: leaves pipeline rank 2 of 4 without a module that has "
             "parameters; give it one");
  CHECK(fault(study_with("{method: smp, assign: {encoder: 5}}", "{pipeline: 2}")) ==
        at + "44: partition.assign.encoder: there are pipeline ranks 0 to 1, not 5");
  CHECK(fault(study_with("{method: smp, assign: {encoder: 1, \"decoder.layers.1*\": 2}}",
                         "{pipeline: 2}")) ==
        at + "68: partition.assign.decoder.layers.1*: there are pipeline ranks 0 to 1, not 2");
  CHECK(fault(study_with("{method: smp, assign: {encoder: 1}, default: 3}", "{pipeline: 2}")) ==
        at + "57: partition.default: there are pipeline ranks 0 to 1, not 3");
  CHECK(fault(study_with("{method: smp, times: emulate, measured: \"\"}", "{pipeline: 2}")) ==
        at + "52: partition.measured: expected the file that emulate saved");
  CHECK(fault(study_with("{method: smp, times: emulate, measured: /none/times.json}",
                         "{pipeline: 2}")) ==
        at + "52: partition.measured: /none/times.json: no such file; emulate saves it in its DIR");
  CHECK(fault(study_with("{method: smp, assign: {enc: 1}}", "{}")) ==
        at + "34: partition.assign: no module of the model matches 'enc'");
  CHECK(fault(study_with("{method: smp, memory_weight: 0.5, assign: {encoder: 1}}", "{}")) ==
        at + "41: partition.memory_weight: weighs modules, and assign says where they lie");
  CHECK(fault(study_with("{method: smp, on: [0, 1, 0]}")) ==
        at + "30: partition.on: goes with assign; else method smp says where modules lie");
  CHECK(fault(study_with("{method: smp, assign: {encoder: 1}, on: [0, 1]}", "{}")) ==
        at + "52: partition.on: modules lie so that stages are on ranks 0 1 0; write these, or "
             "leave this key out");
  CHECK(fault(study_with("{method: cost, routing: direct}")) ==
        at + "36: partition.routing: is of method smp");
  CHECK(fault(study_with(kTwo, "{}", "schedule: zb-h1\n")) ==
        "study.yaml:6:11: schedule: partition smp's stages are no chain of its devices, and zb-h1 "
        "places stages itself; gpipe, 1f1b and opportunistic and schedule: {file: rows.csv} take "
        "them where they lie");
  CHECK(fault(study_with("{method: smp, memory_weight: 2}"))
            .starts_with(at + "41: partition.memory_weight: "));
}

TEST_CASE("more devices than modules with parameters are refused with the one that has none") {
  const std::string small =
      "model: {family: gpt, layers: 1, hidden: 16, heads: 2, vocab: 16, seq_len: 8}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 4}\ntraining: {global_batch: 8}\n"
      "parallel: {pipeline: 32}\npartition: smp\nschedule: gpipe\n";
  CHECK(fault(small).find("without a module that has parameters; write fewer in "
                          "parallel.pipeline, or assign") != std::string::npos);
}

}  // namespace trainyard::module_devices_test
