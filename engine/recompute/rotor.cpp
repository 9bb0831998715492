#include "engine/recompute/rotor.h"

#include "engine/base/error.h"
#include "engine/recompute/least_memory.h"
#include "engine/recompute/rotor_table.h"

namespace trainyard {

double rotor_steps(int num_groups, std::int64_t slots) {
  const double stages = num_groups + 1;
  return stages * stages * stages / 6 * static_cast<double>(slots);
}

std::int64_t least_slots(const RecomputeChain& chain) {
  return LeastMemory<std::int64_t>(chain).total();
}

std::variant<RecomputePlan, Infeasible> rotor(const RecomputeChain& chain, std::int64_t slots) {
  const LeastMemory<std::int64_t> least(chain);
  RecomputePlan out;
  out.least_slots = least.total();
  if (slots < out.least_slots) {
    return Infeasible{"no sequence of operations fits " + std::to_string(slots) + " slots; " +
                      std::to_string(out.least_slots) + " are the fewest that work"};
  }
  const std::int64_t beside = slots - chain.input[0];
  const RotorTable table(chain, least, beside);
  out.time = table.time(beside);
  table.append_sequence(0, chain.num_groups(), beside, out.sequence);
  const auto outcome = run_sequence(chain, out.sequence);
  check(std::holds_alternative<ChainOutcome>(outcome), "rotor made a sequence that cannot run");
  out.peak = std::get<ChainOutcome>(outcome).peak;
  check(out.peak <= slots, "rotor made a sequence that takes more memory than there is");
  return out;
}

}  // namespace trainyard
