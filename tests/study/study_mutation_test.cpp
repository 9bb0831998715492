// 2,000 damaged studies: each reads, or is refused with a ConfigError, and nothing else happens.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "study/study_writer.h"
#include "tests/study/study_fixture.h"

namespace trainyard::study_mutation_test {

namespace {

const std::vector<std::string> kSeeds = {
    kSmallStudy,
    "model: {family: t5, layers: 4, hidden: 64, heads: 4, vocab: 99, seq_len: 32}\n"
    "cluster: {device: a100, nodes: 2, devices_per_node: 4, intra: {kind: nvlink, bandwidth: 300 "
    "GB/s, latency: 2 us}, inter: {kind: infiniband, bandwidth: 200 Gbit/s}, fabric: {kind: "
    "fat-tree, leaf: 16 nodes, oversubscription: 1}, speed: {3: 0.8}}\n"
    "parallel: {tensor: 2, pipeline: 2, data: 2, zero: {stage: 1}, placement: PDT}\n"
    "training: {global_batch: 16, microbatch: 2, precision: bf16, lr: {peak: 3e-4, warmup: 10}}\n"
    "partition: [4]\nschedule: gpipe\nrecompute: full\n",
    "model: {preset: llama-tiny, layers: 16}\n"
    "cluster: {gpu: h100, gpus: 16, gpus_per_node: 4, intra: nvswitch, intra_gb_per_s: 450, "
    "inter: roce, inter_gbit_per_s_per_node: null, nvlink_domain: 8}\n"
    "parallel: {pipeline: 4, virtual_stages: 2, sequence_parallel: true}\n"
    "training: {global_batch: 32, flash_attention: true, bucket_elements: 40e6}\n"
    "schedule: {method: interleaved}\nframework: {name: megatron-lm}\n"
    "data: {path: synthetic}\ncheckpoint: {every: 10}\n"};

const std::vector<std::string> kPieces = {"0",          "-1",        "1e999", "9223372036854775807",
                                          "4294967296", "1048576",   ".nan",  "~",
                                          "null",       "''",        "[]",    "{}",
                                          "[1, 2]",     "{a: 1}",    "true",  "&a ",
                                          "*a",         "!!x ",      "\t",    "\n",
                                          "\"",         "'",         "{",     "}",
                                          "[",          "]",         ": ",    ", ",
                                          "#",          "\xc3",      "\x01",  "1e-300 us",
                                          "|\n",        "- ",        "? ",    "%TAG",
                                          "---\n",      "2147483647"};

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  std::string damage(std::string text) {
    const std::size_t times = 1 + below(2);
    for (std::size_t i = 0; i < times; ++i) damage_once(text);
    return text;
  }

 private:
  std::size_t below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
  }

  void damage_once(std::string& text) {
    if (text.empty()) return;
    const std::size_t at = below(text.size());
    switch (below(5)) {
      case 0: text.insert(at, kPieces[below(kPieces.size())]); break;
      case 1: text.erase(at, 1 + below(8)); break;
      case 2: text[at] = static_cast<char>(below(256)); break;
      case 3: text.insert(at, text.substr(below(text.size()), below(60))); break;
      default: replace_value(text, at);
    }
  }

  /// Puts a piece in place of the word after the next ": ".
  void replace_value(std::string& text, std::size_t at) {
    const std::size_t colon = text.find(": ", at);
    if (colon == std::string::npos) return;
    const std::size_t end = text.find_first_of(",}\n", colon);
    text.replace(colon + 2, std::min(end, text.size()) - colon - 2, kPieces[below(kPieces.size())]);
  }

  std::mt19937 random_;
};

}  // namespace

TEST_CASE("damaged studies are read or refused") {
  Mutator mutator(20240607);
  int num_read = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string text = mutator.damage(kSeeds[static_cast<std::size_t>(i) % kSeeds.size()]);
    CAPTURE(text);
    try {
      const Study study = read(text);
      REQUIRE(error_of(resolved_study_text(study)) == "no error");
      ++num_read;
    } catch (const ConfigError& error) {
      REQUIRE(std::string(error.what()).find("study.yaml:") == 0);
    }
  }
  CHECK(num_read > 20);  // the damage is not so heavy that nothing gets past the parser
}

}  // namespace trainyard::study_mutation_test
