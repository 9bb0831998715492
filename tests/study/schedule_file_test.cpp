// `schedule: {file: rows.csv}` and `microbatch_group` in studies: the same Program as by name, any
// order that can run, and what is wrong at its place.
#include <catch2/catch.hpp>
#include <random>

#include "engine/program/program_text.h"
#include "engine/schedule/opportunistic.h"
#include "engine/schedule/schedule_csv.h"
#include "engine/schedule/schedule_names.h"
#include "study/study_writer.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/simulated.h"
#include "tests/support/studies.h"

namespace trainyard::schedule_file_test {

namespace {

/// A study of 2 or 4 stages whose schedule is given by `schedule`.
std::string study_with(const std::string& schedule, int pipeline, int virtual_stages = 1) {
  return "model: {family: gpt, layers: 8, hidden: 64, heads: 4, vocab: 512, seq_len: 32}\n"
         "cluster: {preset: dgx-a100-80g, nodes: 1}\n"
         "parallel: {pipeline: " +
         std::to_string(pipeline) + ", virtual_stages: " + std::to_string(virtual_stages) +
         ", data: 1}\n"
         "training: {global_batch: 8, microbatch: 1}\n"
         "schedule: " +
         schedule + "\n";
}

class CsvFile {
 public:
  explicit CsvFile(const std::string& text) : path_(folder_ / "rows.csv") {
    write_text(path_, text);
  }
  const std::string& path() const { return path_; }
  std::string key() const { return "{file: " + path_ + "}"; }

 private:
  ScratchFolder folder_;
  std::string path_;
};

std::string digest_of(const std::string& study) {
  return program_digest(compiled_program(prepare_text(study)));
}

std::string fault(const std::string& study, const std::vector<std::string>& sets = {}) {
  return error_of([&] { prepare_text(study, sets); });
}

}  // namespace

TEST_CASE("a schedule from a file makes the Program that its name makes") {
  const CsvFile one(schedule_csv(one_f_one_b(4, 8)));
  CHECK(digest_of(study_with(one.key(), 4)) == digest_of(study_with("1f1b", 4)));
  const CsvFile rounds(schedule_csv(interleaved(2, 2, 8)));
  CHECK(digest_of(study_with(rounds.key(), 2, 2)) == digest_of(study_with("interleaved", 2, 2)));
  CHECK(digest_of(study_with(one.key(), 4)) != digest_of(study_with("gpipe", 4)));
}

TEST_CASE("any order that can run makes a Program that runs") {
  const int seed = GENERATE(range(0, 12));
  std::mt19937 random(static_cast<unsigned>(seed));
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  Numbered<ActionDurations> of_stage(4);
  for (ActionDurations& durations : of_stage)
    durations = {static_cast<double>(draw(1, 9)), static_cast<double>(draw(1, 9)), 1, 1, 1};
  const CsvFile file(schedule_csv(opportunistic(of_stage, 0, 8, draw(1, 8))));
  CHECK(simulate_text(study_with(file.key(), 4), false).result.summary.iteration_time > 0);
}

TEST_CASE("microbatch_group changes the order, and no other method has it") {
  const std::string grouped = "{method: interleaved, microbatch_group: 4}";
  CHECK(digest_of(study_with(grouped, 2, 2)) != digest_of(study_with("interleaved", 2, 2)));
  CHECK(digest_of(study_with("{method: interleaved, microbatch_group: 2}", 2, 2)) ==
        digest_of(study_with("interleaved", 2, 2)));
  CHECK(fault(study_with("{method: 1f1b, microbatch_group: 4}", 4)) ==
        "study.yaml:5:44: schedule.microbatch_group: is for schedule interleaved, not for 1f1b; "
        "leave it out");
  CHECK(fault(study_with("{method: interleaved, microbatch_group: 7}", 2, 2)) ==
        "study.yaml:5:51: schedule.microbatch_group: 8 microbatches in groups of 7 leave 1, fewer "
        "than the 2 pipeline "
        "ranks, which would wait for them");
}

TEST_CASE("study.resolved.yaml keeps the file and the group") {
  const CsvFile file(schedule_csv(one_f_one_b(4, 8)));
  for (const std::string& text : {study_with(file.key(), 4),
                                  study_with("{method: interleaved, microbatch_group: 4}", 2, 2)}) {
    const Study study = prepare_text(text).study;
    CHECK(prepare_text(resolved_study_text(study)).study.schedule == study.schedule);
  }
}

TEST_CASE("a file that does not suit the study is refused with what would") {
  const CsvFile file(schedule_csv(interleaved(2, 2, 8)));
  const std::string place = "study.yaml:5:18: schedule.file: ";
  CHECK(fault(study_with(file.key(), 2, 2)) == "none");
  CHECK(fault(study_with(file.key(), 4)) ==
        place + "has a line for each of 2 ranks, but parallel.pipeline is 4");
  CHECK(fault(study_with(file.key(), 2)) ==
        place +
            "has 4 stages, but 2 pipeline ranks of parallel.virtual_stages 1 have 2; "
            "virtual_stages 2 does");
  CHECK(fault(study_with(file.key(), 2, 2), {"training.global_batch=16"}) ==
        place + "has 8 microbatches, but the step has 16; global_batch 8 does");
  CHECK(fault(study_with("{file: nowhere.csv}", 4)) ==
        place + "nowhere.csv: No such file or directory");
  CHECK(fault(study_with("{file: " + file.path() + ", method: 1f1b}", 2))
            .find("method: unknown key") != std::string::npos);
  const CsvFile broken("0F0,0B0\n1F0,1F0,1B0\n");
  CHECK(fault(study_with(broken.key(), 2)) == broken.path() + ":2:5: 1F0 appears twice");
}

TEST_CASE("halves of backwards, stages in a V and early recomputation come from files too") {
  struct Named {
    std::string name;
    int pipeline, virtual_stages;
    std::string recompute;
  };
  const auto named = GENERATE(values<Named>({{"zb-h1", 4, 1, "none"},
                                             {"zb-h1", 4, 1, "full"},
                                             {"interleaved-zb1p", 2, 2, "none"},
                                             {"zb-v", 2, 2, "none"},
                                             {"zb-v", 4, 2, "full"},
                                             {"dualpipe-v", 2, 2, "none"},
                                             {"pre-recompute-1f1b", 4, 1, "full"},
                                             {"last-no-recompute-1f1b", 4, 1, "full"},
                                             {"scp", 4, 1, "full"}}));
  CAPTURE(named.name, named.recompute);
  const auto made = schedule_by_name(named.name, named.pipeline, named.virtual_stages, 8,
                                     named.recompute != "none");
  const CsvFile file(schedule_csv(std::get<PipelineSchedule>(made)));
  const std::string recompute = "recompute: " + named.recompute + "\n";
  CHECK(digest_of(study_with(file.key(), named.pipeline, named.virtual_stages) + recompute) ==
        digest_of(study_with(named.name, named.pipeline, named.virtual_stages) + recompute));
}

TEST_CASE("what solve finds for durations runs from a file") {
  for (const char* name : {"zb-1p", "zb-2p"}) {
    const auto found = schedule_by_name(name, 4, 1, 8, false);
    const CsvFile file(schedule_csv(std::get<PipelineSchedule>(found)));
    CHECK(simulate_text(study_with(file.key(), 4), false).result.summary.iteration_time > 0);
  }
}

TEST_CASE("a file that recomputes wants a study that does") {
  const auto made = schedule_by_name("scp", 4, 1, 8, true);
  const CsvFile file(schedule_csv(std::get<PipelineSchedule>(made)));
  CHECK(fault(study_with(file.key(), 4)) ==
        "study.yaml:5:18: schedule.file: recomputes (R), but the study keeps all activations; "
        "recompute: full does not");
}

TEST_CASE("searched schedules take the durations of their own stages, and keep what they found") {
  const std::string method = GENERATE("zb-1p", "zb-2p", "opportunistic");
  CAPTURE(method);
  const Prepared prepared = prepare_text(study_with(method, 4));
  CHECK(prepared.study.schedule.method == method);
  const PipelineSchedule found = parse_schedule_csv(prepared.study.schedule.rows, method);
  CHECK(found.num_ranks() == 4);
  CHECK(found.num_microbatches == 8);
  // What was found stands in study.resolved.yaml, and is not searched again: another device changes
  // nothing.
  const std::string resolved = resolved_study_text(prepared.study);
  const Prepared again = prepare_text(resolved);
  CHECK(again.study.schedule == prepared.study.schedule);
  CHECK(program_digest(compiled_program(again)) == program_digest(compiled_program(prepared)));
  CHECK(prepare_text(study_with(method, 4)).study.schedule == prepared.study.schedule);
}

TEST_CASE("zb-2p is not slower than zb-h1 and 1f1b where its model of durations holds") {
  // Closed forms, no tensor parallelism: what the search counts with is what the step takes.
  const auto time = [](const std::string& method) {
    return simulate_text("fidelity: analytic\n" + study_with(method, 4), false)
        .result.summary.iteration_time;
  };
  const Seconds zb_2p = time("zb-2p");
  CHECK(zb_2p <= time("zb-h1") * 1.001);
  CHECK(zb_2p < time("1f1b"));
}

TEST_CASE("limits of searches are refused where they mean nothing") {
  CHECK(fault(study_with("{method: 1f1b, memory_limit: 4}", 4)) ==
        "study.yaml:5:40: schedule.memory_limit: is for schedules zb-1p and zb-2p, not for 1f1b; "
        "leave it out");
  CHECK(fault(study_with("{method: zb-1p, active_microbatches: 4}", 4)) ==
        "study.yaml:5:48: schedule.active_microbatches: is for schedule opportunistic, not for "
        "zb-1p; leave it out");
  CHECK(
      fault(study_with("{method: 1f1b, rows: [\"0F0\"]}", 4)).find("is what a search has found") !=
      std::string::npos);
  CHECK(fault(study_with("{method: zb-1p, rows: [\"0F0\"]}", 4)).find("schedule.rows: ") !=
        std::string::npos);
  CHECK(fault(study_with("zb-1p", 1)).find("needs at least 2 pipeline ranks") != std::string::npos);
  CHECK(fault(study_with("{method: zb-1p, memory_limit: 6}", 4)) == "none");
  CHECK(fault(study_with("{method: zb-1p, mode: static}", 4)) == "none");
  CHECK(fault(study_with("{method: 1f1b, mode: static}", 4)) ==
        "study.yaml:5:32: schedule.mode: static is for schedules zb-1p, zb-2p and opportunistic, "
        "whose order depends on durations, not for 1f1b; leave it out");
}

TEST_CASE("fast mode is for modules that send to each other, and else said to be static") {
  const auto warnings = [](const std::string& mode) {
    return prepare_text(study_with("{method: zb-1p, mode: " + mode + "}", 4)).study.warnings;
  };
  const std::vector<std::string> said = warnings("fast");
  CHECK(said.front() ==
        "schedule.mode: fast is for partition smp, whose modules then send directly; with "
        "partition uniform it is the same as static");
  // That devices are idle is said of both.
  CHECK(warnings("static") == std::vector<std::string>(said.begin() + 1, said.end()));
}

TEST_CASE("what an order's file held is kept, and another order is one option away") {
  const auto made = schedule_by_name("1f1b", 4, 1, 8, false);
  std::string resolved;
  {
    const CsvFile file(schedule_csv(std::get<PipelineSchedule>(made)));
    resolved = resolved_study_text(prepare_text(study_with(file.key(), 4)).study);
  }
  // The file has gone.
  CHECK(prepare_text(resolved).study.schedule.rows ==
        schedule_csv(std::get<PipelineSchedule>(made)));
  const std::string searched = resolved_study_text(prepare_text(study_with("zb-2p", 4)).study);
  const auto rows = [&](const std::vector<std::string>& sets) {
    return prepare_text(searched, sets).study.schedule.rows;
  };
  const std::string found = prepare_text(study_with("zb-2p", 4)).study.schedule.rows;
  CHECK(rows({}) == found);
  CHECK(rows({"schedule.memory_limit=4"}) ==
        prepare_text(study_with("{method: zb-2p, memory_limit: 4}", 4)).study.schedule.rows);
  CHECK(rows({"schedule.memory_limit=4"}) != found);
  CHECK(rows({"schedule.method=opportunistic"}) ==
        prepare_text(study_with("opportunistic", 4)).study.schedule.rows);
}

TEST_CASE("a CSV may begin as spreadsheets write it") {
  CHECK(parse_schedule_csv("\xEF\xBB\xBF"
                           "0F0,0B0\n",
                           "x.csv")
            .num_microbatches == 1);
}

}  // namespace trainyard::schedule_file_test
