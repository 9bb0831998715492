// What a run measured: which steps count, how long they took, and the file.
#include "calibrate/validate/run_measurement.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/program/no_ops.h"
#include "engine/program/program_text.h"
#include "engine/program/rank_places.h"
#include "tests/support/example_program.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/studies.h"
#include "tests/support/timing.h"

namespace trainyard::run_measurement_test {

namespace {

/// One rank, one row: from `issued` to `end`.
MeasuredStep step(std::int64_t number, Seconds issued, Seconds end, bool after_checkpoint = false) {
  MeasuredStep out{number, after_checkpoint, {RankTrace{}}};
  TraceRow row;
  row.issued = row.start = issued;
  row.end = end;
  out.ranks[0].rows = {row};
  return out;
}

/// Every instruction of every rank, a millisecond after the other, each of 400 us.
RunMeasurement example_run(const Program& program) {
  RunMeasurement run;
  run.program_digest = program_digest(program);
  run.device = "cpu";
  run.cores = 2;
  run.ranks_on_machine = 4;
  run.threads_per_rank = 1;
  for (int i = 0; i < 2; ++i) {
    MeasuredStep one{7 + i, i == 0, {}, i == 1};
    for (std::int64_t r = 0; r < program.mesh.num_ranks(); ++r) {
      RankTrace rank;
      rank.rank = r;
      rank.list = list_of(program, r);
      rank.rows = issued_rows(program, program.body[rank.list]);
      for (std::size_t k = 0; k < rank.rows.size(); ++k) {
        TraceRow& row = rank.rows[k];
        row.issued = 5 + i + 1e-3 * static_cast<double>(k);
        row.ready = row.start = row.issued + 100e-6;
        row.end = row.issued + 500e-6;
      }
      one.ranks.push_back(std::move(rank));
    }
    run.steps.push_back(std::move(one));
  }
  return run;
}

std::string written(const RunMeasurement& run, const Program& program) {
  std::string text;
  write_run_measurement(run, program, [&](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace

TEST_CASE("a step's time runs from the end of the step before, where nothing else came between") {
  RunMeasurement run;
  // Ends 10, 12, 20, 23, 40: step 6 took 2, step 8 took 3. A checkpoint came before step 7, and
  // step 10 was not recorded after 8 directly.
  run.steps = {step(5, 9, 10), step(6, 10.5, 12), step(7, 18, 20, true), step(8, 20, 23),
               step(10, 36, 40)};
  CHECK(timed_steps(run) == std::vector<std::size_t>{1, 3});
  CHECK(step_time(run, 1) == 2);
  CHECK(step_time(run, 3) == 3);
  CHECK(step_time(run, 2) == 2);  // from its first issue
  CHECK(median_step_time(run) == 2.5);
  CHECK(median_step(run) == 1);
  // Nor does a step's time run from before one that was void.
  run.steps[1].after_void = true;
  CHECK(timed_steps(run) == std::vector<std::size_t>{3});
  CHECK(step_time(run, 1) == 1.5);
}

TEST_CASE("of a single recorded step, its own length is all there is") {
  RunMeasurement run;
  run.steps = {step(1, 4, 7, true)};
  CHECK(timed_steps(run) == std::vector<std::size_t>{0});
  CHECK(median_step_time(run) == 3);
}

TEST_CASE("the middle steps are those without the fastest and the slowest quarter") {
  RunMeasurement run;
  // Eight times after the first step: 1, 9, 2, 8, 3, 7, 4, 6. Without 1, 2 and 8, 9: 3, 4, 6, 7.
  Seconds now = 0;
  run.steps = {step(1, -1, 0)};
  for (const int length : {1, 9, 2, 8, 3, 7, 4, 6}) {
    run.steps.push_back(step(run.steps.back().step + 1, now, now + length));
    now += length;
  }
  CHECK(middle_steps(run) == std::vector<std::size_t>{5, 7, 8, 6});
  CHECK(median_step_time(run) == 5);
}

TEST_CASE("more ranks than cores is said of CPUs only") {
  RunMeasurement run;
  run.device = "cpu";
  run.cores = 2;
  run.ranks_on_machine = 2;
  CHECK_FALSE(oversubscribed(run));
  run.ranks_on_machine = 3;
  CHECK(oversubscribed(run));
  run.device = "cuda";
  CHECK_FALSE(oversubscribed(run));
}

TEST_CASE("measured.json reads back to the nanosecond") {
  const Program program = verified(kExampleProgram);
  const RunMeasurement run = example_run(program);
  const ScratchFolder folder;
  write_text(folder / "measured.json", written(run, program));
  const RunMeasurement back = read_run_measurement(folder / "measured.json", program);
  CHECK(back.cores == 2);
  CHECK(back.threads_per_rank == 1);
  CHECK(oversubscribed(back));
  REQUIRE(back.steps.size() == 2);
  CHECK(back.steps[1].step == 8);
  CHECK(back.steps[0].after_checkpoint);
  CHECK_FALSE(back.steps[1].after_checkpoint);
  CHECK_FALSE(back.steps[0].after_void);
  CHECK(back.steps[1].after_void);
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t r = 0; r < 4; ++r) {
      const auto &a = run.steps[i].ranks[r].rows, &b = back.steps[i].ranks[r].rows;
      REQUIRE(a.size() == b.size());
      for (std::size_t k = 0; k < a.size(); ++k) {
        // Times count from the first issue of all, 5 s.
        CHECK(b[k].issued == Approx(a[k].issued - 5).margin(1e-12));
        CHECK(b[k].start == Approx(a[k].start - 5).margin(1e-12));
        CHECK(b[k].end == Approx(a[k].end - 5).margin(1e-12));
        CHECK((a[k].segment == b[k].segment && a[k].mb == b[k].mb && a[k].op == b[k].op));
      }
    }
  }
}

TEST_CASE("ranks of unlike replicas have the times of their own instructions") {
  // Replicas of a stage with unlike peers have lists of their own.
  const Program program = compiled_program(prepare_text(
      "model: {family: gpt, layers: 2, hidden: 32, heads: 2, vocab: 64, seq_len: 32}\n"
      "cluster: {preset: dgx-h100, devices: 3}\npartition: {cuts: [1], replicas: [1, 2]}\n"
      "training: {global_batch: 8, microbatch: 4, precision: bf16}\n"));
  REQUIRE(program.body.size() > 2);
  const RunMeasurement run = example_run(program);
  const ScratchFolder folder;
  write_text(folder / "measured.json", written(run, program));
  const RunMeasurement back = read_run_measurement(folder / "measured.json", program);
  for (std::size_t r = 0; r < 3; ++r) {
    CAPTURE(r);
    CHECK(back.steps[0].ranks[r].list == run.steps[0].ranks[r].list);
    CHECK_FALSE(back.steps[0].ranks[r].rows.empty());
  }
}

TEST_CASE("an instruction that did nothing has no row, in files of earlier versions neither") {
  const Program program = verified(kExampleProgram);
  RunMeasurement run = example_run(program);
  std::vector<TraceRow>& rows = run.steps[0].ranks[2].rows;
  const TraceRow behind = rows[4];
  rows.erase(rows.begin() + 3);
  const ScratchFolder folder;
  const std::string path = folder / "measured.json";
  write_text(path, written(run, program));
  const std::vector<TraceRow> back = read_run_measurement(path, program).steps[0].ranks[2].rows;
  REQUIRE(back.size() == rows.size());
  CHECK((back[3].segment == behind.segment && back[3].op == behind.op));
  CHECK(back[3].issued == Approx(behind.issued - 5).margin(1e-12));

  // One rank: the norm of all ranks is its own. Version 1 has times of that, too.
  const Program alone = compiled_program(
      prepare_text("model: {family: gpt, layers: 1, hidden: 8, heads: 1, vocab: 16, seq_len: 4}\n"
                   "cluster: {preset: local, ranks: 1}\ntraining: {global_batch: 1, microbatch: 1, "
                   "precision: fp32}\n",
                   {}));
  RunMeasurement old;
  old.program_digest = program_digest(alone);
  old.device = "cpu";
  old.cores = old.ranks_on_machine = old.threads_per_rank = 1;
  RankTrace all;
  all.rows = issued_rows(alone, alone.body[0]);
  for (std::size_t i = 0; i < all.rows.size(); ++i) {
    TraceRow& row = all.rows[i];
    row.issued = row.ready = row.start = static_cast<double>(i) * 1e-6;
    row.end = row.start + 1e-6;
  }
  const auto nothing = [&](const TraceRow& row) {
    return does_nothing(alone, alone.segments[row.segment].ops[row.op], 0);
  };
  REQUIRE(std::count_if(all.rows.begin(), all.rows.end(), nothing) == 1);
  old.steps = {{1, false, {all}}};
  write_text(path, with(written(old, alone), "\"version\":2", "\"version\":1"));
  const std::vector<TraceRow> kept = read_run_measurement(path, alone).steps[0].ranks[0].rows;
  CHECK(kept.size() == all.rows.size() - 1);
  CHECK(std::none_of(kept.begin(), kept.end(), nothing));
}

TEST_CASE("a file that is not of the Program is refused with what is wrong") {
  const Program program = verified(kExampleProgram);
  const ScratchFolder folder;
  const std::string path = folder / "measured.json";
  const auto refusal = [&](const std::string& text) {
    write_text(path, text);
    return error_of([&] { read_run_measurement(path, program); });
  };
  const std::string good = written(example_run(program), program);
  CHECK(
      refusal(with(good, program_digest(program), "0123")) ==
      path +
          ":1:14: program_digest: the run in this folder had another Program than its program.txt");
  CHECK_THAT(refusal(with(good, "[0,100000,500000,", "[0,")),
             Catch::Contains("measured.json:2:44: steps[0].times[0]: rank 0 issues ") &&
                 Catch::Contains("has not three times of each"));
  CHECK_THAT(refusal(good.substr(0, good.size() / 2)), Catch::Contains("is not JSON"));
  CHECK(refusal(with(good, "\"cores\":2", "\"cores\":\"two\"")) ==
        path + ":1:113: cores: expected an integer, got \"two\"");
  CHECK(refusal(with(good, "\"version\":2", "\"version\":9")) ==
        path + ":1:2: version: this version reads up to 2");
  CHECK_THAT(refusal("{\"version\":1}"), Catch::Contains("program_digest: missing"));
}

TEST_CASE("times that no run has are refused at their place") {
  const Program program = verified(kExampleProgram);
  const ScratchFolder folder;
  const std::string path = folder / "measured.json";
  const std::string good = written(example_run(program), program);
  const auto refusal = [&](const std::string& first, const std::string& second = "500000") {
    write_text(path, with(good, "[0,100000,500000,", "[" + first + ",100000," + second + ","));
    return error_of([&] { read_run_measurement(path, program); });
  };
  CHECK(refusal("0") == "none");
  CHECK(refusal("1e400") == path + ":2:45: no double holds the number 1e400");
  const auto beyond = [&](const std::string& number) {
    return path +
           ":2:45: steps[0].times[0][0]: expected a whole number of nanoseconds within a year, "
           "got " +
           number;
  };
  // 2^63 - 1 overflows where the next time is added, 2^63 and -2^63 where it is negated.
  for (const std::string number : {"9223372036854775807", "9223372036854775808",
                                   "-9223372036854775808", "31536000000000001", "1.5"}) {
    CHECK(refusal(number) == beyond(number));
  }
  CHECK(refusal("0", "50000") ==
        path + ":2:54: steps[0].times[0][2]: the instruction ends before it starts");
  write_text(path, with(good, "\"step\":8", "\"step\":7"));
  CHECK_THAT(error_of([&] { read_run_measurement(path, program); }),
             Catch::Contains("steps[1].step: does not come behind 7"));
}

TEST_CASE("instructions stand in the order of issue, those inside a call where they are issued") {
  // 0NORM issued inside 0B0, before its op 2.
  Program program = verified(kExampleProgram);
  RankClass list;
  Call call;
  for (const SegmentId s : program.segments.keys()) {
    if (program.segments[s].name == "0B") call.segment = s;
    if (program.segments[s].name == "0NORM") call.inside = {{2, s}};
  }
  call.mb = {1, -1};
  list.calls = {call};
  const std::vector<TraceRow> rows = issued_rows(program, list);
  REQUIRE(rows.size() == 9);  // seven ops of 0B, two of 0NORM
  std::vector<int> ops;
  for (const TraceRow& row : rows)
    ops.push_back(row.segment == call.segment ? static_cast<int>(row.op) : -1);
  CHECK(ops == std::vector<int>{0, 1, -1, -1, 2, 3, 4, 5, 6});
  CHECK(rows[0].mb == 1);
  CHECK(rows[2].mb == -1);
}

}  // namespace trainyard::run_measurement_test
