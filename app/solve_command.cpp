// `trainyard solve`: one algorithm on a problem written by hand.
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/solve/solve.h"
#include "system/terminal.h"

namespace trainyard {

int run_solve(const SolveOptions& options) {
  if (options.help) {
    print_text(solve_help(options.topic));
    return kDone;
  }
  if (options.problem.empty())
    throw ConfigError("solve needs a problem, a YAML file; solve --help lists the problems");
  const nlohmann::ordered_json answer = solve(YamlNode::load_file(options.problem));
  if (options.json)
    print_answer(answer.dump(2) + "\n");
  else
    print_text(solve_text(answer));
  return kDone;
}

}  // namespace trainyard
