// Which cases of a list a command takes.
#pragma once

#include <string>
#include <vector>

#include "calibrate/validate/case_list.h"

namespace trainyard {

/// The cases that meet every selection, in their order. A selection is `path=value` or
/// `path=value,value`: the case's own text under that key path ("framework", "training.precision")
/// is one of the values; a key that a case does not say, or says as null, has the text "null".
/// Throws ConfigError for a selection of another form, and where no case is left.
std::vector<PublishedCase> select_cases(std::vector<PublishedCase> cases,
                                        const std::vector<std::string>& selections);

}  // namespace trainyard
