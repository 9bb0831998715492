// Partitions by measured times: which kernels are timed, and that a file of times is as good.
#include "app/op_timer.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "app/op_times_file.h"
#include "engine/passes/one_stage_graph.h"
#include "engine/planner/op_profile.h"
#include "study/study_writer.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/studies.h"

namespace trainyard::op_timer_test {

namespace {

using Sets = std::vector<std::string>;

/// A device on which kernels whose text has `slow` in it take a second, and others a millisecond.
class SlowDevice {
 public:
  explicit SlowDevice(std::string slow) : slow_(std::move(slow)) {}

  OpTimes time(const Study& one_stage) {
    ++runs_;
    const Program program = compiled_program(prepare_text(resolved_study_text(one_stage)));
    for (const Segment& segment : program.segments) {
      for (const ProgramOp& op : segment.ops) {
        const std::string kernel = kernel_text(program, op);
        if (seen_.find(kernel)) continue;
        seen_.add(kernel, kernel.find(slow_) != std::string::npos ? 1 : 1e-3);
      }
    }
    return seen_;
  }
  TimeOps times() {
    return [this](const Study& one_stage) { return time(one_stage); };
  }
  int runs() const { return runs_; }
  std::string json() const { return op_times_json({"cpu", 2, seen_}); }

 private:
  std::string slow_;
  int runs_ = 0;
  OpTimes seen_;
};

Prepared prepared_on(SlowDevice& device, const std::string& yaml, const Sets& sets = {}) {
  std::vector<std::string> warnings;
  const StudyResolvers resolvers = make_resolvers(TRAINYARD_SOURCE_DIR, warnings, device.times());
  return prepare_study(read_study_text(yaml, "study.yaml", sets, resolvers), resolvers);
}

std::string fault(const std::string& yaml, const Sets& sets = {}) {
  try {
    prepare_text(yaml, sets);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

const std::string kModules =
    "model: {family: t5, layers: 4, hidden: 64, heads: 4, vocab: 128, seq_len: 32, "
    "decoder_seq_len: 16}\n"
    "cluster: {preset: dgx-a100-80g, devices: 2}\n"
    "training: {global_batch: 16, microbatch: 2, precision: bf16}\n"
    "parallel: {pipeline: 2}\nschedule: gpipe\n"
    "partition: {method: smp, memory_weight: 0, times: emulate}\n";
/// 16 bytes a parameter are 3 GiB, of which a device has a tenth of its 32 GiB free.
const std::string kPipeline =
    "model: {family: bert, layers: 12, hidden: 1024, heads: 16, vocab: 30522, seq_len: 128}\n"
    "cluster: {preset: dgx-1v, nodes: 1}\n"
    "training: {global_batch: 64, precision: fp32}\n"
    "partition: {method: rannc, margin: 0.9, times: emulate}\nframework: pytorch\n";

}  // namespace

TEST_CASE("the kernels of a model with one stage are those that its Program runs") {
  for (const std::string model :
       {"{family: gpt, layers: 2, hidden: 64, heads: 4, vocab: 128, seq_len: 32}",
        "{family: t5, layers: 2, hidden: 64, heads: 4, vocab: 128, seq_len: 32}",
        "{family: llama, layers: 2, hidden: 64, heads: 4, vocab: 128, seq_len: 32}",
        "{family: resnet, depth: 18, image_size: 32, classes: 5}",
        "{family: unet, hidden: 8, depth: 2, image_size: 16}"}) {
    for (const std::string more :
         {"parallel={data: 1}", "parallel={tensor: 2, data: 1}", "training.precision=fp16",
          "recompute=full", "training.dropout=0.1"}) {
      const bool has_heads = model.find("heads") != std::string::npos;
      if (!has_heads && more.find("tensor") != std::string::npos) continue;
      const bool has_dropout = has_heads && model.find("llama") == std::string::npos;
      if (!has_dropout && more.find("dropout") != std::string::npos) continue;
      CAPTURE(model, more);
      const Prepared prepared =
          prepare_text("model: " + model +
                           "\ncluster: {preset: dgx-a100-80g, devices: 2}\nparallel: {data: 1}\n"
                           "training: {global_batch: 4, microbatch: 4, precision: bf16}\n",
                       {more});
      const auto graph = one_stage_graph(prepared.model, prepared.study, prepared.software);
      REQUIRE(std::holds_alternative<TrainingGraph>(graph));
      const auto& training = std::get<TrainingGraph>(graph);
      CHECK(find_untimed(training, {}));
      CHECK(find_untimed(training, SlowDevice("").time(prepared.study)).value_or("") == "");
    }
  }
}

TEST_CASE("modules lie by measured times, and by the file that holds them the same way") {
  const auto divides_decoder = [](const Prepared& prepared) {
    return std::ranges::any_of(prepared.study.partition.assign, [](const auto& entry) {
      return entry.first.starts_with("decoder.layers.");
    });
  };
  SlowDevice even("no kernel"), slow("[2,16,");  // the decoder's, which has shorter sequences
  CHECK_FALSE(divides_decoder(prepared_on(even, kModules)));
  const Prepared prepared = prepared_on(slow, kModules);
  CHECK(divides_decoder(prepared));
  CHECK(slow.runs() == 1);
  const ScratchFolder folder;
  write_text(folder / "partition_times.json", slow.json());
  const Sets file = {"partition.measured=" + folder / "partition_times.json"};
  CHECK(prepare_text(kModules, file).study.partition == prepared.study.partition);
  // The resolved study says where the times are, and needs them no more.
  const std::string resolved = resolved_study_text(prepared.study);
  CHECK_THAT(resolved, Catch::Contains("of time measured (partition_times.json)"));
  CHECK(prepare_text(resolved).study.partition.on == prepared.study.partition.on);
}

TEST_CASE("a pipeline is planned by measured times, for as many samples as stages may get") {
  SlowDevice slow("softmax"), again("softmax");
  const Prepared prepared = prepared_on(slow, kPipeline);
  CHECK(slow.runs() > 1);
  CHECK_THAT(resolved_study_text(prepared.study),
             Catch::Contains("of times measured (partition_times.json)"));
  const ScratchFolder folder;
  write_text(folder / "times.json", slow.json());
  const Prepared filed = prepare_text(kPipeline, {"partition.measured=" + folder / "times.json"});
  CHECK(filed.study.partition == prepared.study.partition);
  CHECK(filed.study.training == prepared.study.training);
}

TEST_CASE("what measured times cannot be is refused where it is said") {
  CHECK(fault(kModules) ==
        "study.yaml:6:51: partition.times: emulate measures ops on a device, which this command "
        "does not do; run trainyard emulate STUDY --rank 0 --out DIR, and write measured: "
        "DIR/partition_times.json beside it, or use DIR/study.resolved.yaml");
  SlowDevice slow("softmax");
  prepared_on(slow, kModules);
  const ScratchFolder folder;
  write_text(folder / "times.json", slow.json());
  const std::string measured = "partition.measured=" + folder / "times.json";
  CHECK_THAT(fault(kModules, {measured, "model.hidden=128"}),
             Catch::Contains("partition.measured: ") && Catch::Contains("has no time of ") &&
                 Catch::Contains("measure again"));
  CHECK_THAT(fault(kModules, {measured, "partition.times=model"}),
             Catch::Contains("partition.measured: holds what times: emulate measured"));
  CHECK_THAT(fault(kPipeline, {"partition.times=descendants"}),
             Catch::Contains("partition.times: descendants counts modules"));
  CHECK_THAT(fault(kPipeline, {"partition={method: cost, times: emulate}"}),
             Catch::Contains("partition.times: is of methods smp and rannc"));
  write_text(folder / "times.json",
             "{\"device\": \"cpu\", \"threads\": 1, \"seconds\": {\"a\": -1}}");
  CHECK_THAT(fault(kModules, {measured}),
             Catch::Contains("times.json:1:") && Catch::Contains("expected seconds, got -1"));
}

}  // namespace trainyard::op_timer_test
