// What the files of training data hold, and which of it a family can be trained on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "study/study.h"

namespace trainyard {

/// Kinds that suit the family, the usual one first; more than one where the model itself says which
/// (onnx: tokens where it predicts them, else tensors).
std::vector<std::string_view> data_kinds(Family family);

/// Whether data.path names a file or a folder, and is not generated or synthetic.
bool is_of_files(const DataConfig& data);

/// Fails at model.vocab where `num_ids` of it, which the model leaves to data, are fewer than the
/// `needed` ones of `what`.
void need_ids(const Study& study, std::int64_t num_ids, std::int64_t needed,
              const std::string& what);

}  // namespace trainyard
