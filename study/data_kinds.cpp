#include "study/data_kinds.h"

namespace trainyard {

std::vector<std::string_view> data_kinds(Family family) {
  if (family == Family::kOnnx) return {"tensors", "tokens"};
  if (is_of_images(family)) return {"images"};
  if (family == Family::kNcf || family == Family::kClip) return {"pairs"};
  return {"tokens"};
}

bool is_of_files(const DataConfig& data) {
  return data.path != "generated" && data.path != "synthetic";
}

}  // namespace trainyard
