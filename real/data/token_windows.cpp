#include "real/data/token_windows.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/data/byte_tokens.h"
#include "real/data/file_windows.h"
#include "real/data/generated_text.h"
#include "real/data/uniform_tokens.h"
#include "study/data_kinds.h"
#include "study/study_origin.h"

namespace trainyard {

std::unique_ptr<TokenWindows> make_token_windows(const Study& study, std::int64_t num_ids,
                                                 const WindowShape& shape) {
  const DataConfig& data = study.data;
  const std::int64_t seed = study.training.seed;
  if (data.path == "synthetic") {
    need_ids(study, num_ids, 1, "uniform tokens");
    return std::make_unique<UniformTokens>(num_ids, seed);
  }
  if (data.path == "generated") {
    need_ids(study, num_ids, GeneratedText::kLeastSymbols, "generated text");
    return std::make_unique<GeneratedText>(std::min(num_ids, GeneratedText::kMostSymbols), seed);
  }
  const bool is_text = data.format == "text";
  try {
    // A file that is missing is said before what it would need.
    TokenFile file = TokenFile::open(data.path, data.format);
    need_ids(study, num_ids, is_text ? kByteVocabulary : 1, "bytes as tokens");
    const std::int64_t num_symbols = is_text ? kByteVocabulary : num_ids;
    return std::make_unique<FileWindows>(std::move(file), num_symbols, shape,
                                         EpochOrder{data.shuffle, seed});
  } catch (const ConfigError& error) {
    if (!error.key_path().empty()) throw;
    fail_at(study, "data.path", error.what());
  }
}

}  // namespace trainyard
