#include "tests/support/mutated_study.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

namespace {

constexpr std::array<std::string_view, 22> kNumbers = {
    "0",  "1",  "2",   "3",    "4",    "5",     "7",      "8",       "12",         "16",
    "64", "96", "100", "1000", "4096", "10000", "100000", "1048576", "2147483647", "1099511627776",
    "-1", "0.5"};

constexpr std::array<std::string_view, 40> kWords = {"null",       "true",
                                                     "false",      "auto",
                                                     "none",       "selective",
                                                     "full",       "gpipe",
                                                     "1f1b",       "interleaved",
                                                     "gpt",        "bert",
                                                     "t5",         "llama",
                                                     "bf16",       "fp16",
                                                     "fp32",       "fp64",
                                                     "sgd",        "trainyard",
                                                     "nemo",       "uniform",
                                                     "[1, 2]",     "{a: 1}",
                                                     "[]",         "{}",
                                                     "~",          "megatron-lm",
                                                     "PDT",        "spread",
                                                     "dgx-1v",     "gpt2",
                                                     "llama-2-7b", "300 GB/s",
                                                     "5 us",       "1e999",
                                                     ".nan",       "9223372036854775807",
                                                     "''",         "*a"};

constexpr std::array<std::string_view, 16> kLines = {
    "recompute: stage-aware\n",
    "recompute: {method: group, strategy: group_2}\n",
    "recompute: full\n",
    "recompute: selective\n",
    "schedule: gpipe\n",
    "schedule: interleaved\n",
    "fidelity: analytic\n",
    "framework: megatron-lm\n",
    "framework: {name: megatron-lm, version: 2022}\n",
    "partition: {method: uniform, uneven: true}\n",
    "partition: {method: uniform, ends: layers}\n",
    "partition: [1, 2, 3]\n",
    "data: {path: synthetic}\n",
    "checkpoint: {every: 5}\n",
    "unknown: 1\n",
    "id: a case\n"};

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string run(std::string text) {
    // Half of the studies are changed in values only, so that many get past the reader.
    const bool values_only = below(2) == 0;
    const std::size_t times = 1 + below(4);
    for (std::size_t i = 0; i < times && !text.empty(); ++i) {
      values_only ? change_value(text) : change_text(text);
    }
    return text;
  }

 private:
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }

  template <typename Items>
  auto one_of(const Items& items) {
    return items[below(items.size())];
  }

  void change_value(std::string& text) {
    switch (below(4)) {
      case 0: return replace_number(text, std::string(one_of(kNumbers)));
      case 1: return scale_number(text);
      case 2: return replace_word(text);
      default: text += one_of(kLines); return;
    }
  }

  void change_text(std::string& text) {
    const std::size_t at = below(text.size());
    switch (below(7)) {
      case 0: text[at] = static_cast<char>(below(256)); return;
      case 1: text[at] = static_cast<char>(text[at] ^ static_cast<char>(1U << below(8))); return;
      case 2: text.erase(at, 1 + below(12)); return;
      case 3: text.insert(at, text.substr(below(text.size()), below(40))); return;
      case 4: return swap_pieces(text);
      case 5: return double_line(text);
      default: return change_value(text);
    }
  }

  /// [begin, end) of the numbers, or of the words, in the text.
  static std::vector<std::pair<std::size_t, std::size_t>> tokens(const std::string& text,
                                                                 bool numbers) {
    std::vector<std::pair<std::size_t, std::size_t>> out;
    for (std::size_t i = 0; i < text.size();) {
      const auto is_part = [&](std::size_t k) {
        const auto c = static_cast<unsigned char>(text[k]);
        return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
      };
      if (text[i] == '#') i = std::min(text.find('\n', i), text.size());
      if (i >= text.size() || !is_part(i)) {
        ++i;
        continue;
      }
      std::size_t end = i;
      while (end < text.size() && is_part(end)) ++end;
      const bool digits = std::all_of(text.begin() + static_cast<std::ptrdiff_t>(i),
                                      text.begin() + static_cast<std::ptrdiff_t>(end),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
      if (digits == numbers) out.emplace_back(i, end);
      i = end;
    }
    return out;
  }

  void replace_number(std::string& text, const std::string& with) {
    const auto numbers = tokens(text, true);
    if (numbers.empty()) return;
    const auto [begin, end] = one_of(numbers);
    text.replace(begin, end - begin, with);
  }

  void scale_number(std::string& text) {
    const auto numbers = tokens(text, true);
    if (numbers.empty()) return;
    const auto [begin, end] = one_of(numbers);
    if (end - begin > 15) return;
    const long long number = std::stoll(text.substr(begin, end - begin));
    const std::array<long long, 8> changed = {number + 1,  number - 1, number * 2, number / 2,
                                              number * 10, number * 3, number * 8, number * 100};
    text.replace(begin, end - begin, std::to_string(one_of(changed)));
  }

  void replace_word(std::string& text) {
    const auto words = tokens(text, false);
    if (words.empty()) return;
    const auto [begin, end] = one_of(words);
    text.replace(begin, end - begin, one_of(kWords));
  }

  void swap_pieces(std::string& text) {
    const auto words = tokens(text, below(2) == 0);
    if (words.size() < 2) return;
    auto a = one_of(words), b = one_of(words);
    if (a.first > b.first) std::swap(a, b);
    if (a.first == b.first) return;
    const std::string first = text.substr(a.first, a.second - a.first);
    const std::string second = text.substr(b.first, b.second - b.first);
    text.replace(b.first, second.size(), first);
    text.replace(a.first, first.size(), second);
  }

  void double_line(std::string& text) {
    const std::size_t at = below(text.size());
    const std::size_t begin = text.rfind('\n', at) + 1;  // npos + 1 is 0
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    if (begin >= end) return;
    text.insert(end, text.substr(begin, end - begin));
  }

  std::mt19937_64 random_;
};

}  // namespace

std::vector<StudyFile> read_studies(const std::string& folder) {
  std::vector<StudyFile> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    files.push_back({entry.path().string(), text.str()});
  }
  std::sort(files.begin(), files.end(),
            [](const StudyFile& a, const StudyFile& b) { return a.path < b.path; });
  if (files.empty()) throw std::runtime_error("no studies in " + folder);
  return files;
}

std::string mutate(std::string text, std::uint64_t seed) {
  return Mutator(seed).run(std::move(text));
}

StudyCorpus read_corpus() {
  return {read_studies(TRAINYARD_SOURCE_DIR "/tests/studies"),
          read_studies(TRAINYARD_SOURCE_DIR "/configs")};
}

StudyFile mutated_study(const StudyCorpus& corpus, std::uint64_t seed) {
  const bool turn_of_shipped = seed % kShippedEvery == 0;
  const std::vector<StudyFile>& studies = turn_of_shipped ? corpus.shipped : corpus.small;
  const StudyFile& study =
      studies[(turn_of_shipped ? seed / kShippedEvery : seed) % studies.size()];
  return {study.path, mutate(study.text, seed)};
}

}  // namespace trainyard
