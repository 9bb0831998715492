// Where a study says a cut: in the list that partition is, or in partition.cuts.
#pragma once

#include <cstddef>
#include <string>

#include "study/study_origin.h"

namespace trainyard {

/// Key path of the list of cuts.
inline std::string cuts_key(const Study& study) {
  return is_said(study, "partition.cuts") ? "partition.cuts" : "partition";
}

/// Key path of one of them; that of the list where the study has not said it.
inline std::string cut_key(const Study& study, std::size_t number) {
  const std::string list = cuts_key(study), item = list + "[" + std::to_string(number) + "]";
  return is_said(study, item) ? item : list;
}

}  // namespace trainyard
