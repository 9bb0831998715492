#include "app/solve/automatic_problems.h"

#include <nlohmann/json.hpp>

namespace trainyard {

namespace {

constexpr std::string_view kChainKeys =
    "ftime, btime  forward and backward of each group, any unit; btime has the loss's (both ways) "
    "behind them\n"
    "x             size of what each group reads, and of what the loss reads\n"
    "xbar          size of the model's input, and of what each group keeps for its backward, its "
    "result among it\n"
    "ftmp, btmp    what each holds beside that while it runs; btmp with the loss's; default 0\n"
    "slots         of memory, the model's input among them\n"
    "memory        that the slots make, in the unit of the sizes; sizes are rounded up to slots. "
    "Default: a size\n"
    "              is a number of slots\n"
    "communication {ftime, btime, ftmp, btmp}: of each group's collectives, added both ways; "
    "default none\n";

}  // namespace

const std::vector<SolveProblem>& automatic_problems() {
  static const std::vector<SolveProblem> kProblems = {
      {"recompute-chain", "recompute_chain",
       "the fastest way to train a chain of groups in given memory: rotor", kChainKeys,
       "problem: recompute-chain\nftime: [1, 1, 1, 1]\nbtime: [2, 2, 2, 2, 0]\nx: [1, 1, 1, 1, "
       "1]\nxbar: [1, 2, 2, 2, 2]\nslots: 7\n",
       solve_recompute_chain}};
  return kProblems;
}

}  // namespace trainyard
