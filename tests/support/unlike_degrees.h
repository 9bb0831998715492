// Programs whose pipeline ranks have tensor degrees of their own, of studies that cannot say so.
#pragma once

#include <string>
#include <vector>

#include "engine/program/program.h"
#include "tests/support/studies.h"

namespace trainyard {

/// Compiles a study with the largest of `degrees` as its tensor degree. Throws std::runtime_error
/// where it is infeasible.
Program unlike_degrees_program(const Prepared& prepared, const std::vector<int>& degrees);

/// Sets for prepare_text(): the study of so many replicas that unlike_degrees_program() takes.
/// `ranks`: the key that says how many ranks its cluster has.
std::vector<std::string> sets_of_degrees(const std::vector<int>& degrees, int data = 1,
                                         const std::string& ranks = "cluster.ranks");

}  // namespace trainyard
