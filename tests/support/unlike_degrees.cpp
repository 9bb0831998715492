#include "tests/support/unlike_degrees.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

#include "engine/passes/unlike_degrees.h"

namespace trainyard {

Program unlike_degrees_program(const Prepared& prepared, const std::vector<int>& degrees) {
  PassLog log;
  auto compiled = compile_unlike_degrees(prepared.model, program_inputs(prepared.study), degrees,
                                         prepared.software, log, {.verify = true});
  if (const auto* reason = std::get_if<Infeasible>(&compiled))
    throw std::runtime_error(reason->reason);
  return std::get<Program>(std::move(compiled));
}

std::vector<std::string> sets_of_degrees(const std::vector<int>& degrees, int data,
                                         const std::string& ranks) {
  const int most = *std::max_element(degrees.begin(), degrees.end());
  const int stages = static_cast<int>(degrees.size());
  return {ranks + "=" + std::to_string(most * stages * data),
          "parallel.tensor=" + std::to_string(most), "parallel.pipeline=" + std::to_string(stages),
          "parallel.data=" + std::to_string(data)};
}

}  // namespace trainyard
