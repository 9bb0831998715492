// partition.replicas: what a study may say of replicas of each pipeline rank.
#include <catch2/catch.hpp>
#include <string>

#include "study/study_writer.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/studies.h"
#include "tests/support/study_outcome.h"

namespace trainyard::replicas_test {

namespace {

/// Twelve layers on eight devices.
std::string study_with(const std::string& partition, const std::string& rest = "",
                       int microbatch = 4) {
  return "model: {family: gpt, layers: 12, hidden: 64, heads: 4, vocab: 64, seq_len: 16}\n"
         "cluster: {preset: dgx-a100-80g, devices: 8}\n"
         "training: {global_batch: 16, microbatch: " +
         std::to_string(microbatch) + "}\npartition: " + partition + "\n" + rest;
}

std::string fault(const std::string& study) {
  return error_of([&] { prepare_text(study); });
}

}  // namespace

TEST_CASE("replicas of each pipeline rank say the degrees") {
  const Study study = prepare_text(study_with("{replicas: [2, 3, 1]}")).study;
  CHECK(study.parallel.pipeline == 3);
  CHECK(study.parallel.data == 3);
  CHECK(study.parallel.num_ranks() == 6);
  CHECK(study.num_microbatches() == 4);  // 16 / 4: a microbatch is of all replicas
  CHECK(study.parallel.placement == "stages");
  CHECK(study.parallel.scatter_gather);
  for (const std::string text :
       {"{replicas: [2, 3, 1]}", "{cuts: [2, 9], replicas: [1, 4], on: [0, 1, 0]}",
        "{replicas: [1, 1]}"}) {
    const Study read = prepare_text(study_with(text)).study;
    const Study again = prepare_text(resolved_study_text(read)).study;
    CHECK(again.partition == read.partition);
    CHECK(again.parallel == read.parallel);
  }
}

TEST_CASE("placements by stage without replicas of each rank are letters") {
  const auto digest = [](const std::string& placement) {
    return prepare_text(
        study_with("uniform", "parallel: {pipeline: 2, placement: " + placement + "}\n", 1));
  };
  for (const auto& [word, letters] : {std::pair("stages", "PDT"), std::pair("flat", "DPT")}) {
    CHECK(compiled_program(digest(word)).placement == compiled_program(digest(letters)).placement);
  }
}

TEST_CASE("replicas that cannot be are refused with what could") {
  const std::string at = "study.yaml:4:", below = "study.yaml:5:";
  CHECK(fault(study_with("{replicas: [1, 3], on: [0, 1, 2]}")) ==
        at + "23: partition.replicas: has 2 numbers, but partition.on names 3 pipeline ranks");
  CHECK(fault(study_with("{replicas: []}")) ==
        at + "23: partition.replicas: expected the number of replicas of each pipeline rank, got "
             "nothing");
  CHECK(fault(study_with("{replicas: [1, 3]}", "parallel: {data: 3}\n")) ==
        below +
            "18: parallel.data: partition.replicas says how many each pipeline rank has; leave "
            "this key out");
  CHECK(
      fault(study_with("{replicas: [1, 3]}", "parallel: {pipeline: 3}\n")) ==
      at + "23: partition.replicas: is of 2 pipeline ranks, but parallel.pipeline is 3; leave that "
           "key out");
  CHECK(fault(study_with("{replicas: [6, 3]}")) ==
        at + "23: partition.replicas: replicas(6 + 3) * tp(1) = 9 ranks, but cluster at "
             "study.yaml:2:10 "
             "has 8 devices; 2 nodes have room");
  CHECK(fault(study_with("{replicas: [1, 3]}", "parallel: {placement: DPT}\n")) ==
        below +
            "23: parallel.placement: is stages or flat with partition.replicas, whose numbers of "
            "ranks letters cannot place");
  CHECK(fault(study_with("{replicas: [1, 3]}", "parallel: {d2d_buffer: 1 GiB}\n")) ==
        below +
            "24: parallel.d2d_buffer: does not go with partition.replicas: replicas of each "
            "pipeline rank; leave one of them out");
  CHECK(fault(study_with("{replicas: [1, 1, 1, 1, 1]}")) ==
        at + "23: partition.replicas: 5 stages do not divide 12 layers; cuts or uneven: true allow "
             "it");
  CHECK(fault(study_with("{uneven: true, replicas: [1, 1, 1, 1, 1, 1, 1, 1]}")) ==
        at +
            "37: partition.replicas: 2 layers a stage leave none of 12 for the last of 8; cuts say "
            "how many each has");
  CHECK(fault(study_with("{cuts: [2], replicas: [1, 2, 1]}")) ==
        at + "19: partition.cuts: 1 cut makes 2 stages, but the pipeline ranks of "
             "partition.replicas x "
             "virtual_stages = 3; write 2 cuts");
  CHECK(fault(study_with("{replicas: [1, 3]}", "", 3)) ==
        "study.yaml:3:26: training.global_batch: 16 is not a multiple of microbatch(3) = 3; 15 and "
        "18 are");
}

TEST_CASE("a microbatch that leaves replicas without a sequence has no plan") {
  CHECK(run_study(study_with("{replicas: [1, 3]}", "", 2))
            .reason.find("a microbatch of 2 sequences leaves none for 1 of the 3 replicas of "
                         "pipeline rank 1") != std::string::npos);
}

}  // namespace trainyard::replicas_test
