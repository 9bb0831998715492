// Whether training data suit the family, and what is said of them suits the data.
#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "engine/data/byte_tokens.h"
#include "engine/data/special_tokens.h"
#include "study/data_kinds.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

void need_ids(const Study& study, std::int64_t num_ids, std::int64_t needed,
              const std::string& what) {
  if (num_ids >= needed) return;
  const std::int64_t vocab = study.model.vocab;
  const std::string special =
      num_ids == vocab ? ""
                       : " and " + std::to_string(vocab - num_ids) + " special tokens of the model";
  fail_at(study, "model.vocab",
          std::to_string(vocab) + " ids are too few for " + what + " (" + std::to_string(needed) +
              " ids)" + special + "; " + std::to_string(vocab + needed - num_ids) + " are enough");
}

void check_data(const Study& study) {
  const DataConfig& data = study.data;
  const std::vector<std::string_view> kinds = data_kinds(study.model.family);
  if (!data.kind.empty() && std::find(kinds.begin(), kinds.end(), data.kind) == kinds.end()) {
    std::string known(kinds.front());
    for (const std::string_view kind : std::span(kinds).subspan(1))
      known += " or " + std::string(kind);
    fail_at(study, "data.kind",
            "family " + std::string(to_string(study.model.family)) + " is trained on " + known +
                ", not on " + data.kind);
  }
  const DataConfig usual;
  const bool tokens = data.kind == "tokens";
  const bool has_numbers = !tokens && (data.kind != "pairs" || study.model.family == Family::kClip);
  if (!has_numbers || !is_of_files(data)) {
    const std::string problem =
        "is of images in files, and these are " + (has_numbers ? data.path : data.kind);
    if (data.mean != usual.mean) fail_at(study, "data.mean", problem);
    if (data.std != usual.std) fail_at(study, "data.std", problem);
  }
  if (!tokens && !data.kind.empty() && data.format != usual.format)
    fail_at(study, "data.format", "is of files of tokens, and these are " + data.kind);
  if (tokens && is_of_files(data) && data.format == "text" && study.model.family != Family::kOnnx)
    need_ids(study, num_data_ids(study.model), kByteVocabulary, "bytes as tokens");
  if (!is_of_images(study.model.family)) return;
  for (const auto& [key, values] : {std::pair("data.mean", data.mean), {"data.std", data.std}}) {
    if (values.size() == 1 || std::ssize(values) == study.model.channels) continue;
    fail_at(study, key,
            "expected one number, or " + std::to_string(study.model.channels) +
                " for the channels of the model's images, got " + std::to_string(values.size()));
  }
}

}  // namespace trainyard
