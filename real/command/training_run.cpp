#include "real/command/training_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "app/report_command.h"
#include "engine/base/error.h"
#include "engine/base/readable.h"
#include "engine/plan/microbatch_sizes.h"
#include "engine/program/rank_places.h"
#include "engine/sharding/replica_axes.h"
#include "real/checkpoint/checkpoint.h"
#include "real/checkpoint/hugging_face_weights.h"
#include "real/checkpoint/onnx_weights.h"
#include "real/checkpoint/resume_point.h"
#include "real/checkpoint/training_state.h"
#include "real/comm/gloo.h"
#include "real/comm/rendezvous.h"
#include "real/command/rank_watch.h"
#include "real/command/run_answer.h"
#include "real/command/run_folder.h"
#include "real/command/static_order.h"
#include "real/command/training_progress.h"
#include "real/cuda/cuda.h"
#include "real/cuda/cuda_device.h"
#include "real/cuda/host_transport.h"
#include "real/cuda/nccl.h"
#include "real/data/samples.h"
#include "real/exec/host_device.h"
#include "real/launch/local_launcher.h"
#include "real/launch/run_addresses.h"
#include "real/launch/stop_agreement.h"
#include "real/train/loss_file.h"
#include "real/train/rank_trainer.h"
#include "real/train/run_checkpoint.h"
#include "real/train/step_recorder.h"
#include "system/files.h"
#include "system/terminal.h"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

/// Gloo gives up later than the watch over the heartbeats, which can say whom everybody waits for.
constexpr auto kGrace = std::chrono::seconds(30);

/// The rank that hears the loss: of the last stage, first of its replicas and tensor group.
std::int64_t reporter(const Program& program) {
  const auto last =
      std::max_element(program.segments.begin(), program.segments.end(),
                       [](const Segment& a, const Segment& b) { return a.stage < b.stage; });
  const auto of_last_stage = [&](const Call& call) {
    const Segment& segment = program.segments[call.segment];
    return segment.phase == Phase::kForward && segment.stage == last->stage;
  };
  const auto list =
      std::find_if(program.body.begin(), program.body.end(), [&](const RankClass& one) {
        return std::any_of(one.calls.begin(), one.calls.end(), of_last_stage);
      });
  check(list != program.body.end(), "a rank runs the last stage");
  Coordinate first = list->ranks.at;
  std::replace(first.begin(), first.end(), -1, 0);
  if (!list->ranks.replicas.empty())
    move_to_replica(program.mesh, list->ranks.replicas.front(), first);
  return rank_at(program, first);
}

class TrainingRank {
 public:
  TrainingRank(const TrainingPlan& plan, const TrainOptions& options,
               const RankEnvironment& environment)
      : plan_(plan),
        options_(options),
        environment_(environment),
        study_(plan_.prepared.study),
        timeout_(std::chrono::milliseconds(std::llround(study_.training.timeout_s * 1000))),
        addresses_(run_addresses(environment, environment_variable("TRAINYARD_HOST"))),
        rendezvous_(store_address(environment.serves_store), timeout_),
        watch_(environment, rendezvous_, store_address(false), timeout_) {}

  RankEnd run() {
    check_same_program();
    const std::unique_ptr<Samples> samples = make_samples(study_);
    const std::unique_ptr<Device> device = make_device();
    const std::unique_ptr<Transport> transport = make_transport(*device);
    if (tries_orders(study_)) settle_order(*samples, *device, *transport);
    RankTrainer trainer(plan_.program, plan_.prepared.model, study_, *samples, rank(), *device,
                        *transport, drive_folder(plan_.out));
    if (options_.resume) {
      resume(trainer);
    } else if (!options_.weights.empty()) {
      start_from(options_.weights, trainer);
    } else if (study_.model.load_weights) {
      OnnxWeights weights(study_.model, local_sizes(study_.training, study_.parallel)[0]);
      load_weights([&](const Piece& piece, std::span<std::byte> out) { weights.read(piece, out); },
                   trainer);
    }
    std::optional<LossFile> losses;  // of the rank that hears the loss
    reporter_ = reporter(plan_.program);
    if (rank() == reporter_) losses.emplace(plan_.out + "/losses.csv", trainer.steps_done());
    // All ranks listen from here on, and until none has a step before it.
    Rendezvous stop_store(store_address(false), timeout_);
    StopAgreement stop(stop_store, rank(), ranks(), trainer.steps_done(), !supervised());
    watch_.watched(plan_.program, trainer, "training", [&] {
      if (rank() == 0) {
        keep_plan();
        rendezvous_.set(kStopReady, "1");
      }
      train(trainer, *samples, losses, stop);
    });
    const RankEnd end = end_of(trainer, stop.signal());
    if (rank() == 0 && !is_cut_short(trainer)) draw_report();
    return end;
  }

 private:
  std::int64_t rank() const { return environment_.rank; }
  std::int64_t ranks() const { return environment_.world_size; }

  RendezvousAddress store_address(bool serves) const {
    return {addresses_.store, environment_.master_port, serves};
  }

  bool on_gpu() const { return study_.training.kernels == KernelSet::kCuda; }

  std::unique_ptr<Device> make_device() const {
    if (!on_gpu()) return std::make_unique<HostDevice>();
    // Slurm may show each rank one GPU, its own.
    const bool own_only = environment_.launcher != kOwnLauncher && num_cuda_devices() == 1;
    return make_cuda_device(own_only ? 0 : static_cast<int>(environment_.local_rank));
  }

  std::unique_ptr<Transport> make_transport(const Device& device) {
    auto hosts = make_gloo_transport(rendezvous_, rank(), addresses_.own, timeout_ + kGrace);
    if (!on_gpu()) return hosts;
    return with_hosts(make_nccl_transport(rendezvous_, device.where().index(), timeout_ + kGrace),
                      std::move(hosts));
  }

  void check_same_program() {
    const std::vector<std::string> digests =
        rendezvous_.all_gather("digest", rank(), ranks(), plan_.digest);
    for (std::size_t other = 0; other < digests.size(); ++other) {
      if (digests[other] == plan_.digest) continue;
      throw BackendError("rank " + std::to_string(other) + " has another program than rank " +
                         std::to_string(rank()) + ": their studies or versions differ");
    }
  }

  void resume(RankTrainer& trainer) {
    const ResumePoint point = find_resume_point(checkpoint_folder(plan_), options_.resume_from);
    const Checkpoint checkpoint =
        open_to_resume(point, rank() == 0 ? Verify::kChecksums : Verify::kStructure);
    load_checkpoint(checkpoint, trainer);
    if (rank() == 0) say_what_changes(checkpoint);
  }

  void say_what_changes(const Checkpoint& checkpoint) const {
    const auto has_several = [](const OpAttrs& attrs) { return attrs.draw > 0; };
    const auto& attrs = plan_.program.attrs;
    if (std::none_of(attrs.begin(), attrs.end(), has_several)) return;
    const TrainingState state = read_training_state(checkpoint.info(), checkpoint.path(), {});
    if (state.mask_rule == kMaskRule) return;
    print_warnings(
        {"the checkpoint is of an earlier version, in which the dropouts of a module had "
         "one mask; each has its own from here on"});
  }

  /// Weights of another run, or published ones; optimizer state and position are a new run's.
  void start_from(const std::string& path, RankTrainer& trainer) {
    if (fs::exists(path + "/index.json")) {
      const Checkpoint checkpoint =
          Checkpoint::open(path, rank() == 0 ? Verify::kChecksums : Verify::kStructure);
      load_weights(
          [&](const Piece& piece, std::span<std::byte> out) { checkpoint.read(piece, out); },
          trainer);
      return;
    }
    const HuggingFaceWeights weights = HuggingFaceWeights::open(path, study_.model);
    load_weights([&](const Piece& piece, std::span<std::byte> out) { weights.read(piece, out); },
                 trainer);
  }

  /// A run that goes on keeps its order where that still serves; another tries some. From then on
  /// it is the plan's.
  void settle_order(const Samples& samples, Device& device, Transport& transport) {
    std::string rows;
    if (options_.resume) {
      if (rank() == 0) rendezvous_.set("order", order_of_run(plan_.out, study_));
      rows = rendezvous_.get("order");
    }
    if (!rows.empty()) {
      plan_ = plan_with_order(plan_, rows, "the order that the run had before");
      return;
    }
    plan_ = fastest_order(plan_, [&](const TrainingPlan& plan, int number) {
      return try_order(plan, number, samples, device, transport);
    });
  }

  /// What RunFolder::prepare() left for when all ranks are ready to go on.
  void keep_plan() const {
    if (options_.resume_from) {
      for (const std::string& name :
           set_aside_later(find_resume_point(checkpoint_folder(plan_), options_.resume_from))) {
        std::fprintf(stderr, "a later checkpoint is kept as %s\n", name.c_str());
      }
    }
    if (options_.resume || tries_orders(study_)) write_plan(plan_);
    const std::string order = plan_.out + "/schedule.csv";
    if (study_.schedule.mode != "dynamic") {
      write_file(order, study_.schedule.rows);
    } else if (options_.resume && study_.schedule.file.empty()) {
      fs::remove(order);  // the order that the run had before
    }
  }

  /// One step to warm up, then the timed ones. The weights are as at the start of a run, and
  /// dropped.
  OrderTrial try_order(const TrainingPlan& plan, int number, const Samples& samples, Device& device,
                       Transport& transport) {
    constexpr int kTimedSteps = 3;
    const std::string name = "order." + std::to_string(number);
    const auto named = prefixed(transport, name + ".");
    RankTrainer trainer(plan.program, plan.prepared.model, plan.prepared.study, samples, rank(),
                        device, *named);
    OrderTrial own{0, ActionTimes(study_.num_stages())};
    watch_.watched(plan.program, trainer, name, [&] {
      trainer.step();
      trainer.executor().record_rows(true);
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < kTimedSteps; ++i) own.times.add(plan.program, trainer.step().rows);
      own.step = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() /
                 kTimedSteps;
    });
    OrderTrial all{0, ActionTimes(study_.num_stages())};
    for (const std::string& text :
         rendezvous_.all_gather(name + "/times", rank(), ranks(), to_text(own))) {
      const OrderTrial one = order_trial_from(text);
      all.step = std::max(all.step, one.step);
      all.times.add(one.times);
    }
    if (rank() == 0)
      std::fprintf(stderr, "order %d: %s a step\n", number + 1, duration_text(all.step).c_str());
    return all;
  }

  bool is_cut_short(const RankTrainer& trainer) const {
    return trainer.steps_done() < study_.training.steps;
  }

  /// Rank 0 says what a run that a signal ended has left: to its supervisor, where there is one.
  RankEnd end_of(const RankTrainer& trainer, int signal) {
    RankEnd end{signal, ""};
    if (signal == 0 || rank() != 0) return end;
    end.kept = is_cut_short(trainer) ? kept_of(plan_)
                                     : "all " + std::to_string(trainer.steps_done()) +
                                           " steps are done, in " + plan_.out;
    if (supervised()) rendezvous_.set(kStopKept, end.kept);
    return end;
  }

  void train(RankTrainer& trainer, const Samples& samples, std::optional<LossFile>& losses,
             StopAgreement& stop) {
    if (losses) say_what_runs(plan_, environment_, samples, trainer.steps_done());
    const auto begin = std::chrono::steady_clock::now();
    const std::int64_t first = trainer.steps_done();
    std::optional<double> last_loss;
    StepRecorder recorder(first, study_.training.steps,
                          trainer.executor().plan().order().ops.size());
    const auto settled = [&](const std::optional<StepReport>& report) {
      if (!report) return;
      check_finite(*report, trainer);
      if (!losses) return;
      last_loss = report->loss;
      losses->add(*report, tokens_per_step(study_) / report->seconds);
      progress_.show(study_, *report);
    };
    // No step's time runs from before the first, a checkpoint or a void step.
    bool fresh = true, behind_void = false;
    std::int64_t saved = first;
    while (trainer.steps_done() < study_.training.steps &&
           !stop.stops_before(trainer.steps_done() + 1)) {
      const bool records = recorder.wants(trainer.steps_done() + 1);
      trainer.executor().record_rows(records);
      StepOutcome run = trainer.step();
      settled(run.settled);
      if (run.is_void) {
        behind_void = true;
        continue;
      }
      if (records) recorder.add({trainer.steps_done(), fresh, behind_void, std::move(run.rows)});
      behind_void = false;
      const bool last = trainer.steps_done() == study_.training.steps;
      fresh = last || trainer.steps_done() % study_.checkpoint.every == 0;
      if (!fresh) continue;
      settled(trainer.settle());
      if (last) save_steps(plan_.out, plan_.program, rank(), machine(), recorder, rendezvous_);
      save_checkpoint(checkpoint_folder(plan_), trainer, plan_.digest, rank(), ranks(),
                      rendezvous_);
      saved = trainer.steps_done();
    }
    if (is_cut_short(trainer)) {
      settled(trainer.settle());
      if (saved < trainer.steps_done())
        save_checkpoint(checkpoint_folder(plan_), trainer, plan_.digest, rank(), ranks(),
                        rendezvous_);
      return;
    }
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (losses) {
      write_answer(
          plan_, options_.json, trainer,
          {trainer.steps_done() - first, skipped_, seconds, last_loss, samples.best_loss()});
    }
  }

  RunMeasurement machine() const {
    RunMeasurement out;
    out.program_digest = plan_.digest;
    out.device = on_gpu() ? "cuda" : "cpu";
    out.cores = std::max(1U, std::thread::hardware_concurrency());
    out.ranks_on_machine = environment_.local_size;
    out.threads_per_rank = at::get_num_threads();
    return out;
  }

  /// Ranks may lie on machines that do not share the folder: then it is `trainyard report`'s to
  /// draw, where all files have come together.
  void draw_report() const {
    try {
      write_report(plan_.out);
    } catch (const ConfigError& error) {
      std::fprintf(stderr, "no report.html: %s\n", error.what());
    }
  }

  /// Gradients that are not finite end the run with the op that made them so, unless it is the
  /// scale of the loss that they owe it to: then the step goes without an update.
  void check_finite(const StepReport& report, RankTrainer& trainer) {
    if (report.updated) return;
    if (report.loss_scale > 1 && loss_is_finite(report)) {
      ++skipped_;
      return;
    }
    trainer.find_bad_op();
    // Another rank's op it is, whose error ends the run; or nobody's.
    const std::string step = "step " + std::to_string(report.step);
    rendezvous_.barrier("finite/" + step, ranks());
    throw BackendError(step +
                       ": the gradient norm is not finite, though the results of all ops are");
  }

  /// Asked of a step without an update, which all ranks know of: they hear of its loss from the one
  /// that has it.
  bool loss_is_finite(const StepReport& report) {
    const std::string key = "overflow/" + std::to_string(report.step);
    if (rank() == reporter_)
      rendezvous_.set(key, std::isfinite(report.loss.value()) ? "finite" : "not finite");
    return rendezvous_.get(key) == "finite";
  }

  bool supervised() const { return environment_.launcher == kOwnLauncher; }

  TrainingPlan plan_;
  const TrainOptions& options_;
  const RankEnvironment& environment_;
  const Study& study_;
  std::chrono::milliseconds timeout_;
  RunAddresses addresses_;
  Rendezvous rendezvous_;
  RankWatch watch_;
  std::int64_t reporter_ = 0;
  std::int64_t skipped_ = 0;  // steps of this start whose gradients overflowed
  TrainingProgress progress_;
};

}  // namespace

RankEnd run_rank(const TrainingPlan& plan, const TrainOptions& options,
                 const RankEnvironment& environment) {
  return TrainingRank(plan, options, environment).run();
}

}  // namespace trainyard
