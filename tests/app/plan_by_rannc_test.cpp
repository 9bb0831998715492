// partition: rannc: what a study leaves out is decided, within what it gives and what fits.
#include "app/plan_by_rannc.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/program/program_text.h"
#include "study/study_origin.h"
#include "study/study_writer.h"
#include "tests/support/decided_pipeline.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/studies.h"

namespace trainyard::plan_by_rannc_test {

namespace {

using Sets = std::vector<std::string>;

/// 16 bytes a parameter are 3 GiB: with nine tenths of a device left free several stages.
const std::string kBert =
    "model: {family: bert, layers: 12, hidden: 1024, heads: 16, vocab: 30522, seq_len: 128}\n"
    "cluster: {preset: dgx-1v, nodes: 1}\n"
    "training: {global_batch: 64, precision: fp32}\n"
    "partition: {method: rannc, margin: 0.9}\n"
    "framework: pytorch\n";
/// Whose first blocks hold the activations, and the last ones the parameters.
const std::string kResnet =
    "model: resnet50\ncluster: {preset: dgx-1v, nodes: 1}\n"
    "training: {global_batch: 128, precision: fp32}\n"
    "partition: {method: rannc, margin: 0.93}\nframework: pytorch\n";

std::vector<int> replicas_of(const Study& study) {
  if (!study.partition.replicas.empty()) return study.partition.replicas;
  return std::vector<int>(static_cast<std::size_t>(study.parallel.pipeline), study.parallel.data);
}

/// What is wrong with the study, or its plan; "": nothing.
std::string fault(const std::string& yaml, const Sets& sets) {
  try {
    prepare_text(yaml, sets);
  } catch (const ConfigError& error) {
    return error.what();
  } catch (const PlanError& error) {
    return std::string("exit 4: ") + error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("what is decided is in the resolved study, from which the same Program follows") {
  for (const std::string& yaml : {kBert, kResnet}) {
    for (const std::string rule : {"paper", "code", "exact"}) {
      CAPTURE(yaml, rule);
      const Prepared prepared = prepare_text(yaml, {"partition.rule=" + rule});
      const Study& study = prepared.study;
      CHECK(study.partition.method == "cuts");
      CHECK(study.schedule.method == "gpipe");
      CHECK(num_devices_of(study) == 8);
      CHECK(std::ssize(study.partition.cuts) + 1 == study.parallel.pipeline);
      CHECK(study.planned.size() > static_cast<std::size_t>(study.parallel.pipeline));
      for (const char* key : {"partition", "parallel.pipeline", "training.microbatch", "schedule",
                              "recompute", "recompute.method", "parallel.placement"}) {
        CAPTURE(key);
        CHECK(study.origins.at(key).kind == Origin::Kind::kDerived);
      }
      const Prepared again = prepare_text(resolved_study_text(study));
      CHECK(again.study.planned.empty());
      CHECK(program_digest(compiled_program(again)) == program_digest(compiled_program(prepared)));
    }
  }
}

TEST_CASE("a device keeps its margin") {
  for (const double margin : {0.5, 0.9, 0.92}) {
    const Prepared prepared = prepare_text(kBert, {"partition.margin=" + std::to_string(margin)});
    CAPTURE(margin, prepared.study.planned);
    CHECK(share_of_device(prepared) <= 1 - margin);
    // The fewest stages that fit: 3.2 GB of parameters, gradients and state, and 1 GiB of context.
    CHECK((prepared.study.parallel.pipeline > 1) == (margin > 0.5));
  }
}

TEST_CASE("of the numbers of microbatches that with the shortest step is taken") {
  for (const std::string rule : {"paper", "exact"}) {
    const Prepared best = prepare_text(kBert, {"partition.rule=" + rule});
    // "  tried 2 stages on 1 node, 4 microbatches: 207.855 ms"
    int steps = 0;
    for (const std::string& line : best.study.planned) {
      CAPTURE(rule, line);
      const std::string time = line.substr(line.rfind(": ") + 2);
      if (!line.starts_with("  tried ") || !time.ends_with(" ms")) continue;
      CHECK(analytic_step(best) * 1e3 <= std::stod(time) * (1 + 1e-5));
      ++steps;
    }
    CHECK(steps > 2);
  }
}

TEST_CASE("what the study gives is kept") {
  const auto study_of = [](const Sets& sets) { return prepare_text(kBert, sets).study; };
  CHECK(study_of({"parallel.pipeline=4"}).parallel.pipeline == 4);
  const Study of_data = study_of({"parallel.data=2"});
  CHECK(of_data.parallel.data == 2);
  CHECK(of_data.partition.replicas.empty());
  CHECK(of_data.parallel.pipeline > 1);
  const Study both = study_of({"parallel.data=2", "parallel.pipeline=3"});
  CHECK(both.parallel.data == 2);
  CHECK(both.parallel.pipeline == 3);
  CHECK(both.training.microbatch * 2 * both.num_microbatches() == 64);
  const Study of_size = study_of({"training.microbatch=16"});
  CHECK(of_size.num_microbatches() == 4);
  CHECK(!of_size.partition.replicas.empty());  // of which a microbatch is shared
  const Study each = study_of({"training.microbatch=4", "parallel.data=2"});
  CHECK(each.training.microbatch == 4);
  CHECK(each.num_microbatches() == 8);
  CHECK(study_of({"schedule=1f1b"}).schedule.method == "1f1b");
  CHECK(study_of({"recompute=none"}).recompute.method == RecomputeConfig::Method::kNone);
  CHECK(study_of({"recompute=none", "parallel.pipeline=8"}).parallel.pipeline == 8);
  CHECK(study_of({"parallel.placement=stages", "partition.rule=paper"}).parallel.placement ==
        "stages");
}

TEST_CASE("what no pipeline that is decided may be said with is the study's own mistake") {
  for (const std::string method : {"rannc", "search-pipeline"}) {
    CAPTURE(method);
    CHECK_THAT(fault(kBert, {"partition=" + method, "schedule=scp", "recompute=none"}),
               Catch::Contains("recompute: scp says when to recompute, but recompute is none; "
                               "write recompute: full"));
  }
}

TEST_CASE("rule exact has no longer step than rule paper") {
  const std::string llama =
      "model: {family: llama, layers: 8, hidden: 1024, heads: 8, ffn: 2816, vocab: 32000, seq_len: "
      "1024}\ncluster: {preset: dgx-h100, nodes: 1}\n";
  for (const std::string& yaml :
       {kBert, kResnet, llama + "training: {global_batch: 32}\npartition: {method: rannc}\n",
        llama + "training: {global_batch: 64}\npartition: {method: rannc, margin: 0.8}\n"}) {
    CAPTURE(yaml);
    const Seconds exact = analytic_step(prepare_text(yaml, {}));
    const Seconds paper = analytic_step(prepare_text(yaml, {"partition.rule=paper"}));
    CHECK(exact <= paper * (1 + 1e-12));
  }
}

TEST_CASE("recomputation is full with several stages, or by the code with several microbatches") {
  const auto full = [](const std::string& yaml, const Sets& sets) {
    const Study study = prepare_text(yaml, sets).study;
    CHECK(study.recompute.ends == (study.recompute.method == RecomputeConfig::Method::kFull));
    return study.recompute.ends;
  };
  for (const std::string rule : {"paper", "exact"}) {
    const std::string of_rule = "partition.rule=" + rule;
    CHECK(full(kBert, {of_rule, "parallel.pipeline=3"}));
    CHECK_FALSE(full(kBert, {of_rule, "partition.margin=0.1", "training.microbatch=16"}));
  }
  CHECK(full(kBert, {"partition.rule=code", "partition.margin=0.1", "training.microbatch=16"}));
  CHECK_FALSE(
      full(kBert, {"partition.rule=code", "partition.margin=0.1", "training.microbatch=64"}));
}

TEST_CASE("the code gives stages powers of two of devices, and the others any number") {
  for (const int count : replicas_of(prepare_text(kBert, {"partition.rule=code"}).study))
    CHECK(std::has_single_bit(static_cast<unsigned>(count)));
  // A stage level with the least value is no worse than algorithm 1, for the same microbatches.
  const auto value = [](const std::string& rule) {
    return analytic_step(prepare_text(
        kResnet, {"partition.rule=" + rule, "training.microbatch=32", "parallel.pipeline=3"}));
  };
  CHECK(value("exact") <= value("paper") * 1.02);  // by estimate no worse; steps have more in them
}

TEST_CASE("blocks may be few, or none") {
  const Study few = prepare_text(kBert, {"partition.blocks=3", "parallel.pipeline=3"}).study;
  CHECK(few.planned.front().find(" in 3 blocks") != std::string::npos);
  const Study none = prepare_text(kBert, {"partition.blocks=none", "parallel.pipeline=3"}).study;
  CHECK(none.planned.front().find("79 pieces in 79 blocks") != std::string::npos);
  CHECK_THAT(fault(kBert, {"partition.blocks=2", "parallel.pipeline=3"}),
             Catch::Contains("2 blocks cannot be 3 stages; write more blocks"));
}

TEST_CASE("batches that microbatches do not divide are split as evenly as can be") {
  const Study study =
      prepare_text(kBert, {"training.global_batch=45", "parallel.pipeline=3"}).study;
  std::int64_t sum = 0;
  for (std::int64_t m = 0; m < study.num_microbatches(); ++m) {
    sum += (study.training.microbatches.empty() ? study.training.microbatch
                                                : study.training.microbatches[m]) *
           study.batch_replicas();
  }
  CHECK(sum == 45);
}

TEST_CASE("what does not go with rannc is refused at its key") {
  const auto starts = [](const Sets& sets, const std::string& key, const std::string& problem) {
    CAPTURE(sets);
    CHECK_THAT(fault(kBert, sets), Catch::Contains(": " + key + ": ") && Catch::Contains(problem));
  };
  starts({"parallel.tensor=2"}, "parallel.tensor", "not within ops; write 1");
  starts({"parallel.virtual_stages=2"}, "parallel.virtual_stages", "one stage");
  starts({"parallel.zero=3"}, "parallel.zero", "write 1 or 0");
  starts({"training.microbatch=[32, 32]"}, "training.microbatch", "microbatches of one size");
  starts({"training.microbatch=7"}, "training.microbatch", "do not divide global_batch 64");
  starts({"recompute={method: stage-aware, first: 0.5}"}, "recompute", "recompute alike");
  starts({"partition.replicas=[1, 7]"}, "partition.replicas", "is what method rannc decides");
  starts({"partition.on=[0, 1, 0]"}, "partition.on", "places stages");
  starts({"partition.margin=1"}, "partition.margin", "less than 1");
  starts({"partition.blocks=0"}, "partition.blocks", "1");
  starts({"partition.rule=best"}, "partition.rule", "paper, code");
  starts({"partition={method: cost, rule: paper}"}, "partition.rule", "is of method rannc");
  starts({"schedule=interleaved"}, "schedule", "gives a rank one stage, and interleaved needs");
  starts({"parallel.data=3"}, "parallel.data", "do not divide over 3 replicas");
  starts({"parallel.pipeline=2000"}, "partition", "blocks cannot be 2000 stages");
  // A mistake elsewhere is said once, with none about what was not decided.
  CHECK(fault(kBert, {"training.precision=fp7"}).find("precision") != std::string::npos);
}

TEST_CASE("where nothing fits the plan cannot run, and what would do is said") {
  const std::string reason = fault(kBert, {"model.hidden=8192"});
  CHECK(reason.starts_with("exit 4: "));
  CHECK_THAT(reason, Catch::Contains(": partition: the plan cannot run: no pipeline fits") &&
                         Catch::Contains("(a margin of 90 % left free); "));
  CHECK_THAT(fault(kBert, {"model.layers=200"}), Catch::Contains(" nodes would do"));
}

}  // namespace trainyard::plan_by_rannc_test
