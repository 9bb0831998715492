#include "real/command/probe_run.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/base/steady_time.h"
#include "engine/exec/op_work.h"
#include "real/data/samples.h"
#include "real/train/rank_trainer.h"

namespace trainyard {

namespace {

class RowReader {
 public:
  RowReader(const Program& program, bool host_computes)
      : program_(program),
        host_computes_(host_computes),
        work_of_(program) {}

  void read(const std::vector<TraceRow>& rows, Seconds step, ProbeTimings& out) {
    messages_.clear();
    for (const TraceRow& row : rows) {
      if (is_communication(op(row).kind)) messages_.push_back(&row);
    }
    Seconds computing = 0, waiting = 0;
    std::size_t launched = 0;
    for (const TraceRow& row : rows) {
      if (op(row).stream != StreamId::kMain) {
        ++launched;
        continue;
      }
      const KernelWork work = work_of_(op(row));
      waiting += row.start - row.issued;
      if (work.cls == KernelClass::kNone) continue;
      ++launched;
      computing += row.end - row.start;
      add(work, row, out);
    }
    if (launched == 0) return;
    const Seconds host =
        host_computes_ ? step - computing - waiting : rows.back().issued - rows.front().issued;
    out.launches.push_back(std::max(0.0, host) / static_cast<double>(launched));
    add_messages(rows, out);
  }

 private:
  const ProgramOp& op(const TraceRow& row) const {
    return program_.segments[row.segment].ops[row.op];
  }

  static Seconds common(const TraceRow& a, const TraceRow& b) {
    return std::max(0.0, std::min(a.end, b.end) - std::max(a.start, b.start));
  }

  void add(const KernelWork& work, const TraceRow& row, ProbeTimings& out) {
    const auto same = [&](const ProbeTimings::Kernel& kernel) {
      return kernel.work.form == work.form && kernel.work.m == work.m && kernel.work.n == work.n &&
             kernel.work.k == work.k && kernel.work.batch == work.batch &&
             kernel.work.bytes == work.bytes;
    };
    auto kernel = std::find_if(out.kernels.begin(), out.kernels.end(), same);
    if (kernel == out.kernels.end()) kernel = out.kernels.insert(kernel, {work, {}, {}, {}});
    const Seconds time = row.end - row.start;
    Seconds beside = 0;
    for (const TraceRow* message : messages_) beside += common(row, *message);
    if (beside <= 0.02 * time) {
      kernel->alone.push_back(time);
      kernel->step.push_back(out.steps.size() - 1);
    } else if (beside >= 0.5 * time) {
      kernel->covered.push_back(time);
    }
  }

  void add_messages(const std::vector<TraceRow>& rows, ProbeTimings& out) const {
    for (const TraceRow* message : messages_) {
      const ProgramOp& communication = op(*message);
      Seconds beside = 0;
      for (const TraceRow& row : rows) {
        if (op(row).stream == StreamId::kMain && op(row).kind != OpKind::kFree)
          beside += common(row, *message);
      }
      if (beside < 0.8 * (message->end - message->start)) continue;
      out.messages.push_back({communication.kind, message_bytes(program_, communication),
                              message->end - message->start});
    }
  }

  const Program& program_;
  bool host_computes_;
  OpWork work_of_;
  std::vector<const TraceRow*> messages_;
};

}  // namespace

Seconds ProbeTimings::typical(const Kernel& kernel) const {
  std::vector<Seconds> sorted = steps;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t quarter = sorted.size() / 4;
  if (sorted.empty()) return 0;
  const Seconds fastest = sorted[quarter], slowest = sorted[sorted.size() - 1 - quarter];
  Seconds sum = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < kernel.alone.size(); ++i) {
    const Seconds step = steps[kernel.step[i]];
    if (step < fastest || step > slowest) continue;
    sum += kernel.alone[i];
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

ProbeTimings run_probe(const CompiledProbe& probe, std::int64_t rank, Device& device,
                       Transport& transport, const MoreSteps& more) {
  const Study& study = probe.prepared.study;
  const std::unique_ptr<Samples> samples = make_samples(study);
  RankTrainer trainer(probe.program, probe.prepared.model, study, *samples, rank, device,
                      transport);
  trainer.step();  // memory, code, threads
  Seconds begin = steady_time();
  trainer.step();
  const Seconds warm_up = steady_time() - begin;
  trainer.executor().record_rows(true);
  RowReader reader(probe.program, device.immediate());
  ProbeTimings out;
  for (int steps = more(warm_up, out.steps); steps > 0; steps = more(warm_up, out.steps)) {
    for (int i = 0; i < steps; ++i) {
      begin = steady_time();
      const StepOutcome run = trainer.step();
      out.steps.push_back(steady_time() - begin);
      reader.read(run.rows, out.steps.back(), out);
    }
  }
  return out;
}

}  // namespace trainyard
