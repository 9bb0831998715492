// partition.on: what a study may say of where stages lie.
#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "engine/program/program_text.h"
#include "engine/schedule/place_stages.h"
#include "engine/schedule/schedule_csv.h"
#include "study/study_writer.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/studies.h"

namespace trainyard::stage_ranks_test {

namespace {

/// Twelve layers on four devices.
std::string study_with(const std::string& partition, const std::string& rest = "") {
  return "model: {family: gpt, layers: 12, hidden: 64, heads: 4, vocab: 64, seq_len: 16}\n"
         "cluster: {preset: dgx-a100-80g, devices: 4}\n"
         "training: {global_batch: 16, microbatch: 1}\n"
         "partition: " +
         partition + "\n" + rest;
}

std::string digest_of(const std::string& study) {
  return program_digest(compiled_program(prepare_text(study)));
}

std::string fault(const std::string& study) {
  return error_of([&] { prepare_text(study); });
}

}  // namespace

TEST_CASE("stages lie where partition.on says") {
  const Study study = prepare_text(study_with("{cuts: [2, 9], on: [0, 1, 0]}")).study;
  CHECK(study.num_stages() == 3);
  CHECK(study.parallel.pipeline == 2);  // ranks 0 and 1
  CHECK(study.parallel.data == 2);      // of 4 devices
  CHECK(study.origins.at("parallel.pipeline").note == "the ranks of partition.on");
  // Without cuts the layers are divided evenly.
  CHECK(prepare_text(study_with("{on: [1, 0, 2, 0]}", "parallel: {data: 1}\n"))
            .study.parallel.pipeline == 3);
  for (const std::string text : {"{cuts: [2, 9], on: [0, 1, 0]}", "{on: [0, 1, 0]}"}) {
    const Study read = prepare_text(study_with(text)).study;
    CHECK(prepare_text(resolved_study_text(read)).study.partition == read.partition);
  }
}

TEST_CASE("a file may have stages on any ranks, where partition.on says so") {
  const std::string partition = "{cuts: [2, 9, 10], on: [0, 2, 1, 0]}";
  const StageRanks on = {0, 2, 1, 0};
  const ScratchFolder folder;
  const std::string path = folder.path() + "/rows.csv";
  std::ofstream(path) << schedule_csv(place_stages(one_f_one_b(4, 16), on));
  const std::string file = "schedule: {file: " + path + "}\nparallel: {data: 1}\n";
  CHECK(digest_of(study_with(partition, file)) ==
        digest_of(study_with(partition, "parallel: {data: 1}\n")));
  CHECK(fault(study_with("{cuts: [2, 9, 10], on: [0, 1, 2, 0]}", file)) ==
        path + ":2:1: 2F0 is on rank 1, its stage on rank 2");
}

TEST_CASE("a placement that cannot be is refused with what could") {
  const std::string at = "study.yaml:4:";
  CHECK(fault(study_with("{on: [0, 2]}")) ==
        at + "17: partition.on: puts no stage on pipeline rank 1, but one on 2; ranks count from 0 "
             "without a gap");
  CHECK(fault(study_with("{on: [0, 1, 1]}")) ==
        at + "17: partition.on: puts stages 1 and 2 on pipeline rank 1, one behind the other; make "
             "one stage of them");
  CHECK(fault(study_with("{on: []}")) ==
        at + "17: partition.on: expected the pipeline rank of each stage, got nothing");
  CHECK(fault(study_with("{on: [0, 1]}", "parallel: {pipeline: 4}\n")) ==
        at + "17: partition.on: is of 2 pipeline ranks, but parallel.pipeline is 4; leave that "
             "key out");
  CHECK(fault(study_with("{on: [0, 1]}", "parallel: {virtual_stages: 2}\n")) ==
        "study.yaml:5:28: parallel.virtual_stages: partition.on says which stages each pipeline "
        "rank has; leave this key out");
  CHECK(fault(study_with("{cuts: [2], on: [0, 1, 0]}")) ==
        at + "19: partition.cuts: 1 cut makes 2 stages, but partition.on says where 3 lie; write 2 "
             "cuts");
  CHECK(fault(study_with("{on: [0, 1, 0, 1, 0]}")) ==
        at + "17: partition.on: 5 stages do not divide 12 layers; cuts or uneven: true allow it");
  CHECK(fault(study_with("{method: uniform, cuts: [2]}")) ==
        at + "21: partition.method: says how layers are divided, and cuts does, too; leave one of "
             "them out");
  CHECK(fault(study_with("{on: [0, 1, 0]}", "schedule: zb-v\n")) ==
        at + "17: partition.on: zb-v places stages itself; gpipe, 1f1b and opportunistic and "
             "schedule: {file: rows.csv} take them where they lie");
}

}  // namespace trainyard::stage_ranks_test
