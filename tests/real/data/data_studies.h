// Studies with little but a model and data, and shorthand for reading their samples.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "real/data/samples.h"
#include "study/study.h"

namespace trainyard {

using Tokens = std::vector<std::int64_t>;

inline Study study_of(Family family, const std::string& path, std::int64_t vocab,
                      std::int64_t seq_len) {
  Study study;
  study.file = "study.yaml";
  study.model.family = family;
  study.model.vocab = vocab;
  study.model.seq_len = seq_len;
  study.model.max_positions = seq_len;
  if (family == Family::kBert) study.model.token_types = 2;
  if (family == Family::kT5) study.model.decoder_seq_len = seq_len;
  study.data.path = path;
  return study;
}

inline Tokens input(const Samples& samples, std::string_view name, std::int64_t index,
                    std::int64_t length) {
  Tokens tokens(static_cast<std::size_t>(length));
  samples.fill(name, index, tokens);
  return tokens;
}

inline std::vector<float> numbers(const Samples& samples, const char* name, std::int64_t index,
                                  std::size_t count) {
  std::vector<float> out(count);
  samples.fill_numbers(name, index, out);
  return out;
}

/// The message of the ConfigError that `act` throws; "no error" when it throws none.
template <class Act>
std::string config_error(Act act) {
  try {
    act();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace trainyard
