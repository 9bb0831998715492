#include "real/command/training_plan.h"

#include <cstdio>
#include <filesystem>
#include <utility>
#include <variant>

#include "engine/base/error.h"
#include "engine/plan/microbatch_sizes.h"
#include "engine/program/program_text.h"
#include "real/checkpoint/checkpoint.h"
#include "real/checkpoint/hugging_face_weights.h"
#include "real/checkpoint/onnx_weights.h"
#include "real/checkpoint/weights_fit.h"
#include "real/cuda/cuda.h"
#include "real/data/samples.h"
#include "study/compile_study.h"
#include "study/study_origin.h"
#include "study/study_writer.h"
#include "system/files.h"
#include "system/terminal.h"
#include "system/written_by.h"

namespace trainyard {

namespace fs = std::filesystem;

namespace {

/// LibTorch's flash kernels for GPUs draw a mask of their own for dropout.
bool drops_in_flash_attention(const Program& program) {
  for (const Segment& segment : program.segments) {
    for (const ProgramOp& op : segment.ops) {
      if (op.kind == OpKind::kFlashAttention && program.attrs[op.attrs].rate > 0) return true;
    }
  }
  return false;
}

void compile_plan(TrainingPlan& plan) {
  PassLog log;
  auto compiled = compile(plan.prepared.model, plan.prepared.study, plan.prepared.software, log);
  if (const auto* infeasible = std::get_if<Infeasible>(&compiled)) {
    throw plan_error(plan.prepared.study, *infeasible);
  }
  plan.program = std::get<Program>(std::move(compiled));
  plan.digest = program_digest(plan.program);
}

}  // namespace

std::string run_folder(const TrainOptions& options) {
  return options.out.empty() ? "runs/" + fs::path(options.study).stem().string() : options.out;
}

std::string checkpoint_folder(const TrainingPlan& plan) { return plan.out + "/checkpoints"; }

TrainingPlan plan_with_order(const TrainingPlan& plan, const std::string& rows,
                             const std::string& rule) {
  TrainingPlan out = plan;
  out.prepared.study.schedule.rows = rows;
  out.prepared.study.origins["schedule.rows"] = derived_origin(rule);
  compile_plan(out);
  return out;
}

TrainingPlan plan_of(Prepared prepared) {
  TrainingPlan plan;
  plan.prepared = std::move(prepared);
  compile_plan(plan);
  plan.num_ranks = plan.prepared.study.parallel.num_ranks();
  return plan;
}

TrainingPlan plan_training(const TrainOptions& options, const TimeOps& time_ops) {
  TrainingPlan plan;
  std::vector<std::string> sets = options.sets;
  if (options.ranks) sets.push_back("cluster.ranks=" + std::to_string(*options.ranks));
  if (options.steps) sets.push_back("training.steps=" + std::to_string(*options.steps));
  plan.prepared = prepare(options.study, sets, "", time_ops);
  const Study& study = plan.prepared.study;
  if (study.framework.name != "trainyard") {
    fail_at(study, "framework.name",
            study.framework.name + " can be simulated only; train runs framework trainyard");
  }
  const std::string kernels = study.training.kernels == KernelSet::kCpu ? "cpu" : "cuda";
  if (!options.device.empty() && options.device != kernels) {
    throw ConfigError("--device " + options.device + ": the study's training.kernels are " +
                      kernels + "; its Program is another on other devices");
  }
  compile_plan(plan);
  if (drops_in_flash_attention(plan.program)) {
    throw ConfigError(
        options.study +
        ": training.dropout: a flash kernel of the cuda set draws a mask of its own, which "
        "no other layout and no resumed run would draw again; write training.flash_attention: "
        "false, "
        "or training.dropout: 0");
  }
  plan.num_ranks = study.parallel.num_ranks();
  plan.out = run_folder(options);
  return plan;
}

void check_devices(const TrainingPlan& plan) {
  if (plan.prepared.study.training.kernels != KernelSet::kCuda) return;
  const int devices = num_cuda_devices();
  if (devices == 0)
    throw BackendError("the study is one of GPUs, and this process sees none: " + why_no_cuda());
  if (devices < plan.num_ranks) {
    throw BackendError("the plan has " + std::to_string(plan.num_ranks) +
                       " ranks and this machine has " + std::to_string(devices) +
                       " GPUs; start it by torchrun, srun or mpirun on enough of them");
  }
}

void check_inputs(const TrainingPlan& plan, const TrainOptions& options) {
  const Study& study = plan.prepared.study;
  make_samples(study);
  if (study.model.load_weights)
    OnnxWeights(study.model, local_sizes(study.training, study.parallel)[0]);
  if (options.weights.empty() || options.resume) return;
  if (fs::exists(options.weights + "/index.json")) {
    check_weights_fit(study, plan.prepared.model,
                      Checkpoint::open(options.weights, Verify::kStructure), "");
  } else {
    const HuggingFaceWeights weights = HuggingFaceWeights::open(options.weights, study.model);
    print_warnings(check_weights_fit(study, options.weights, weights));
  }
}

void write_plan(const TrainingPlan& plan) {
  const Study& study = plan.prepared.study;
  write_file(plan.out + "/study.resolved.yaml",
             marked_yaml(resolved_study_text(study), {"train", study.file}, plan.out));
  write_file(plan.out + "/program.txt",
             [&](const auto& sink) { write_text(plan.program, true, sink); });
}

}  // namespace trainyard
