// `trainyard solve`: one algorithm on a problem written by hand.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "engine/solve/solve.h"

namespace trainyard {

int run_solve(const SolveOptions& options) {
  if (options.help) {
    std::fputs(solve_help(options.topic).c_str(), stdout);
    return kDone;
  }
  if (options.problem.empty())
    throw ConfigError("solve needs a problem, a YAML file; solve --help lists the problems");
  const nlohmann::ordered_json answer = solve(YamlNode::load_file(options.problem));
  const std::string text = options.json ? answer.dump(2) + "\n" : solve_text(answer);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kDone;
}

}  // namespace trainyard
