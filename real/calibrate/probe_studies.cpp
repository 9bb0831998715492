#include "real/calibrate/probe_studies.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "cli/data_root.h"
#include "engine/base/error.h"
#include "engine/compile.h"

namespace trainyard {

namespace {

struct Variant {
  const char* name;
  const char* family;
  double dropout;  // above 0: attention with its scores kept, on a CPU
};
constexpr std::array<Variant, 5> kVariants = {{{"gpt", "gpt", 0.1},
                                               {"gpt-plain", "gpt", 0},
                                               {"llama", "llama", 0},
                                               {"bert", "bert", 0.1},
                                               {"bert-plain", "bert", 0}}};

struct Batch {
  std::int64_t seq_len, samples;
};
constexpr std::array<Batch, 8> kBatches = {
    {{64, 2}, {64, 16}, {128, 4}, {128, 16}, {256, 1}, {256, 8}, {512, 2}, {1024, 1}}};
constexpr std::array<std::int64_t, 7> kCpuWidths = {128, 256, 512, 1024, 192, 384, 768};
constexpr std::array<std::int64_t, 7> kCudaWidths = {512, 1024, 2048, 4096, 768, 1536, 3072};
constexpr std::array<std::int64_t, 5> kVocabularies = {64, 512, 4096, 16384, 50304};
constexpr std::array<std::int64_t, 3> kHeadSizes = {64, 32, 128};

struct Place {  // of a candidate in the lattice; what it does not say is spread over the others by
                // it
  std::size_t variant, width, batch, number;
  bool half;
};

std::string number(std::int64_t value) { return std::to_string(value); }

Probe make_probe(const Place& at, const std::string& device, std::int64_t ranks) {
  const bool cuda = device == "cuda";
  const Variant& variant = kVariants[at.variant];
  const std::int64_t width = (cuda ? kCudaWidths : kCpuWidths)[at.width];
  Batch batch = kBatches[at.batch];
  if (cuda) batch.seq_len *= 4;
  const std::int64_t head = std::min(kHeadSizes[at.number % kHeadSizes.size()], width / 4);
  // A vocabulary is not a rank's alone, as rows of the table and columns of the head.
  const std::int64_t vocab = kVocabularies[(at.number * 7 + at.width) % kVocabularies.size()];
  const char* type = at.half ? "bf16" : "fp32";
  const bool tensor = ranks > 1 && at.number % 2 == 0 && width / head % ranks == 0;
  Probe probe;
  probe.name = std::string(variant.name) + " h" + number(width) + " a" + number(width / head) +
               " s" + number(batch.seq_len) + " b" + number(batch.samples) + " v" + number(vocab) +
               " " + type + (ranks == 1 ? "" : (tensor ? " tp" : " dp") + number(ranks));
  const std::int64_t global = batch.samples * (tensor ? 1 : ranks);
  const std::int64_t layers = width <= (cuda ? 1024 : 256) ? 2 : 1;
  const char* gpu = cuda ? ", device: h100-sxm-80g" : "";
  const std::int64_t heads = width / head;
  // Some Llamas have fewer heads of keys and values.
  const bool grouped =
      std::string(variant.family) == "llama" && at.number % 4 == 1 && heads % 4 == 0;
  if (grouped) probe.name += " grouped";
  probe.study = "model: {family: " + std::string(variant.family) + ", layers: " + number(layers) +
                ", hidden: " + number(width) + ", heads: " + number(heads) +
                (grouped ? ", kv_heads: " + number(heads / 2) : "") + ", vocab: " + number(vocab) +
                ", seq_len: " + number(batch.seq_len) +
                "}\ncluster: {preset: local, ranks: " + number(ranks) + gpu +
                "}\nparallel: {tensor: " + number(tensor ? ranks : 1) +
                "}\ntraining: {global_batch: " + number(global) +
                ", microbatch: " + number(batch.samples) + ", precision: " + type +
                ", dropout: " + (variant.dropout > 0 && !cuda ? "0.1" : "0") + "}\n";
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
  for (std::size_t width = 0; width < kCpuWidths.size(); ++width) {
    for (std::size_t batch = 0; batch < kBatches.size(); ++batch) {
      for (std::size_t variant = 0; variant < kVariants.size(); ++variant) {
        for (const bool half : {false, true}) {
          // Consecutive candidates of one variant and type differ in head size, vocabulary and
          // layout.
          const std::size_t count = width * kBatches.size() + batch + variant;
          probes.push_back(make_probe({variant, width, batch, count, half}, device, ranks));
        }
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
