#include "real/command/probe_studies.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "engine/base/error.h"
#include "study/compile_study.h"
#include "system/data_root.h"

namespace trainyard {

namespace {

struct Variant {
  const char* name;
  const char* family;
  double dropout;  // above 0: attention with its scores kept
};
constexpr std::array<Variant, 5> kVariants = {{{"gpt", "gpt", 0.1},
                                               {"gpt-plain", "gpt", 0},
                                               {"llama", "llama", 0},
                                               {"bert", "bert", 0.1},
                                               {"bert-plain", "bert", 0}}};

// Powers of two and sizes between them: kernels that work in tiles take unlike times for both.
constexpr std::array<std::int64_t, 11> kCpuWidths = {128, 256, 512, 192, 1024, 320,
                                                     768, 384, 640, 896, 576};
constexpr std::array<std::int64_t, 7> kCudaWidths = {512, 1024, 2048, 4096, 768, 1536, 3072};
constexpr std::array<std::int64_t, 12> kLengths = {64, 128, 256,  96, 512, 160,
                                                   48, 192, 1024, 80, 384, 320};
constexpr std::array<std::int64_t, 7> kSamples = {4, 1, 2, 8, 3, 16, 6};
constexpr std::array<std::int64_t, 8> kVocabularies = {64,    512,  4096, 16384,
                                                       50304, 1000, 7000, 2500};
constexpr std::array<std::int64_t, 5> kHeadSizes = {64, 32, 128, 48, 96};
constexpr std::size_t kCandidates = 64;  // of each variant and type
constexpr std::int64_t kMostTokens = 2048;

struct Place {
  std::size_t variant, number;  // of a variant and type, its candidates are numbered
  bool half;
};

/// The lists are gone through at different paces, so that candidates that follow each other differ
/// in all.
template <std::size_t size>
std::int64_t pick(const std::array<std::int64_t, size>& list, std::size_t number,
                  std::size_t pace) {
  return list[number * pace % size];
}

/// The size of a head that divides `width`, from the one that is picked on.
std::int64_t head_size(std::int64_t width, std::size_t number) {
  for (std::size_t i = 0; i < kHeadSizes.size(); ++i) {
    const std::int64_t head = kHeadSizes[(number + i) % kHeadSizes.size()];
    if (width % head == 0 && width / head >= 2) return head;
  }
  return width / 4;
}

std::string number(std::int64_t value) { return std::to_string(value); }

Probe make_probe(const Place& at, const std::string& device, std::int64_t ranks) {
  const bool cuda = device == "cuda";
  const Variant& variant = kVariants[at.variant];
  const std::size_t n = at.number + 13 * at.variant;
  const std::int64_t width = cuda ? pick(kCudaWidths, n, 3) : pick(kCpuWidths, n, 3);
  const std::int64_t seq_len = pick(kLengths, n, 5) * (cuda ? 4 : 1);
  const std::int64_t most = kMostTokens * (cuda ? 4 : 1);
  const std::int64_t samples = std::clamp<std::int64_t>(most / seq_len, 1, pick(kSamples, n, 2));
  const std::int64_t head = head_size(width, n);
  // A vocabulary is not a rank's alone, as rows of the table and columns of the head.
  const std::int64_t vocab = pick(kVocabularies, n, 3);
  const char* type = at.half ? "bf16" : "fp32";
  const bool tensor = ranks > 1 && n % 2 == 0 && width / head % ranks == 0;
  Probe probe;
  probe.name = std::string(variant.name) + " h" + number(width) + " a" + number(width / head) +
               " s" + number(seq_len) + " b" + number(samples) + " v" + number(vocab) + " " + type +
               (ranks == 1 ? "" : (tensor ? " tp" : " dp") + number(ranks));
  const std::int64_t global = samples * (tensor ? 1 : ranks);
  const std::int64_t layers = width <= (cuda ? 1024 : 256) ? 2 : 1;
  const char* gpu = cuda ? ", device: h100-sxm-80g" : "";
  const std::int64_t heads = width / head;
  // Some Llamas have fewer heads of keys and values.
  const bool grouped = std::string(variant.family) == "llama" && n % 4 == 1 && heads % 4 == 0;
  if (grouped) probe.name += " grouped";
  probe.study =
      "model: {family: " + std::string(variant.family) + ", layers: " + number(layers) +
      ", hidden: " + number(width) + ", heads: " + number(heads) +
      (grouped ? ", kv_heads: " + number(heads / 2) : "") + ", vocab: " + number(vocab) +
      ", seq_len: " + number(seq_len) + "}\ncluster: {preset: local, ranks: " + number(ranks) +
      gpu + "}\nparallel: {tensor: " + number(tensor ? ranks : 1) +
      "}\ntraining: {global_batch: " + number(global) + ", microbatch: " + number(samples) +
      ", precision: " + type + ", dropout: " + (variant.dropout > 0 ? "0.1" : "0") +
      // A GPU's flash kernels draw masks of their own.
      (variant.dropout > 0 && cuda ? ", flash_attention: false" : "") + "}\n";
  return probe;
}

/// Data-parallel, in two microbatches and many buckets: the first microbatch's backward runs alone,
/// the second's beside the reduction of what it has made.
Probe overlap_probe(const std::string& device, std::int64_t ranks) {
  const bool cuda = device == "cuda";
  Probe probe;
  probe.name = kOverlapProbe;
  probe.study = "model: {family: gpt, layers: 6, hidden: " + number(cuda ? 2048 : 384) +
                ", heads: 6, vocab: 256, seq_len: " + number(cuda ? 1024 : 128) +
                "}\ncluster: {preset: local, ranks: " + number(ranks) +
                (cuda ? ", device: h100-sxm-80g" : "") +
                "}\ntraining: {global_batch: " + number(8 * ranks) +
                ", microbatch: 4, precision: fp32, dropout: 0, bucket_elements: " +
                number(cuda ? 40'000'000 : 1'000'000) + "}\n";
  if (cuda) probe.study.replace(probe.study.find("heads: 6"), 8, "heads: 16");
  return probe;
}

}  // namespace

std::vector<Probe> probe_studies(const std::string& device, std::int64_t ranks) {
  std::vector<Probe> probes;
  if (ranks > 1) probes.push_back(overlap_probe(device, ranks));
  for (std::size_t index = 0; index < kCandidates; ++index) {
    for (std::size_t variant = 0; variant < kVariants.size(); ++variant) {
      for (const bool half : {false, true}) {
        Probe probe = make_probe({variant, index, half}, device, ranks);
        const auto same = [&](const Probe& other) { return other.name == probe.name; };
        if (std::none_of(probes.begin(), probes.end(), same)) probes.push_back(std::move(probe));
      }
    }
  }
  return probes;
}

ProbeCompiler::ProbeCompiler() : resolvers_(make_resolvers(data_root(), warnings_)) {}

CompiledProbe ProbeCompiler::compile(const Probe& probe) const {
  CompiledProbe out{
      prepare_study(read_study_text(probe.study, "probe " + probe.name, {}, resolvers_),
                    resolvers_),
      {}};
  PassLog log;
  auto compiled =
      trainyard::compile(out.prepared.model, out.prepared.study, out.prepared.software, log);
  if (const auto* infeasible = std::get_if<Infeasible>(&compiled)) {
    throw ConfigError("probe " + probe.name + ": " + infeasible->reason);
  }
  out.program = std::get<Program>(std::move(compiled));
  return out;
}

}  // namespace trainyard
