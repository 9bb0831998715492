// One rank of a training run that says what memory it takes: its process's, as the system counts
// it, beside what the Program, the ops' declared workspaces and the checkpoint account for. A
// process of its own, because only a fresh one has no memory from before.
//
//   rank_memory (initialise | train) STUDY FOLDER [path=value ...]    ranks as torchrun's variables
//   say; else one
//
// Prints lines "name number", bytes but for page faults: of the process when LibTorch has been
// loaded, after initialisation, after the steps and after a checkpoint, each with its peak since
// the one before.
#include <malloc.h>
#include <sys/resource.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/memory/memory.h"
#include "real/comm/gloo.h"
#include "real/comm/rendezvous.h"
#include "real/command/training_run.h"
#include "real/exec/host_device.h"
#include "real/exec/retained_memory.h"
#include "real/kernels/workspace.h"
#include "real/launch/rank_environment.h"
#include "real/train/run_checkpoint.h"

namespace trainyard {

namespace {

/// A line of /proc/self/status, in bytes.
std::int64_t status(const std::string& name) {
  std::ifstream in("/proc/self/status");
  for (std::string key; in >> key;) {
    std::int64_t kib = 0;
    if (key == name + ":") {
      in >> kib;
      return kib * 1024;
    }
    std::getline(in, key);
  }
  throw BackendError("/proc/self/status has no " + name);
}

/// From here on VmHWM counts anew.
void forget_peak() {
  std::ofstream out("/proc/self/clear_refs");
  out << "5" << std::flush;
  if (!out) throw BackendError("/proc/self/clear_refs: cannot be written");
}

std::int64_t page_faults() {
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

void say(const std::string& name, std::int64_t bytes) {
  std::printf("%s %lld\n", name.c_str(), static_cast<long long>(bytes));
  std::fflush(stdout);
}

/// Memory of the process now, of it what lies in files (code of LibTorch that has run) and on the C
/// library's heap, and its peak since the last call.
void say_process(const std::string& when) {
  say(when + ".peak", status("VmHWM"));
  say(when + ".resident", status("VmRSS"));
  say(when + ".files", status("RssFile"));
  const struct mallinfo2 heap = mallinfo2();
  say(when + ".heap", static_cast<std::int64_t>(heap.uordblks + heap.fordblks));
  forget_peak();
}

/// Runs the steps; what the Program and the declared workspaces say about the memory in use.
void train(const TrainingPlan& plan, RankTrainer& trainer) {
  RankExecutor& executor = trainer.executor();
  std::int64_t declared = 0;
  executor.hooks().op = [&](const OpPlan& op, bool done) {
    if (!done) return;
    declared = std::max(declared, executor.values().live_bytes() +
                                      workspace_bytes(plan.program, *op.op, at::get_num_threads()));
  };
  std::int64_t faults = 0;
  while (trainer.steps_done() < plan.prepared.study.training.steps) {
    faults = -page_faults();
    trainer.step();
    faults += page_faults();
  }
  trainer.settle();
  say_process("trained");
  say("faults", faults);  // pages, in the last step
  say("program", memory_peaks(plan.program, {})[executor.plan().list()].total);
  say("declared", declared);  // live values with the workspace of the op that runs, at most
  const RetainedMemory retained = retained_memory();
  say("retained", retained.mapped_peak - retained.live_peak);
}

void run(const TrainOptions& options, bool trains) {
  const auto environment = read_rank_environment(environment_variable);
  const std::int64_t rank = environment ? environment->rank : 0;
  const TrainingPlan plan = plan_training(options);
  const Study& study = plan.prepared.study;
  const auto timeout = std::chrono::seconds(60);
  Rendezvous rendezvous({"127.0.0.1", environment ? environment->master_port : 0, rank == 0},
                        timeout);
  const std::unique_ptr<Samples> samples = make_samples(study);
  const std::unique_ptr<Transport> transport =
      make_gloo_transport(rendezvous, rank, "127.0.0.1", timeout);
  retain_cpu_memory();
  at::set_num_threads(1);
  at::mm(at::ones({64, 64}), at::ones({64, 64}));  // LibTorch sets itself up with its first op
  say_process("loaded");
  HostDevice device;
  RankTrainer trainer(plan.program, plan.prepared.model, study, *samples, rank, device, *transport);
  say_process("initialised");
  say("shard", trainer.executor().values().live_bytes());
  if (trains) {
    train(plan, trainer);
    save_checkpoint(plan.out + "/checkpoints", trainer, plan.digest, rank, plan.num_ranks,
                    rendezvous);
    say_process("saved");
  }
  rendezvous.barrier("end", plan.num_ranks);
}

}  // namespace

}  // namespace trainyard

int main(int argc, char** argv) {
  const std::string what = argc > 3 ? argv[1] : "";
  if (what != "initialise" && what != "train") return 2;
  trainyard::TrainOptions options;
  options.study = argv[2];
  options.out = argv[3];
  options.sets.assign(argv + 4, argv + argc);
  int exit = 0;
  try {
    trainyard::run(options, what == "train");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    exit = 1;
  }
  std::fflush(nullptr);
  std::_Exit(exit);
}
