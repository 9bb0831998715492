#include <algorithm>
#include <vector>

#include "engine/base/error.h"
#include "engine/plan/microbatch_sizes.h"
#include "models/model.h"
#include "real/data/caption_samples.h"
#include "real/data/causal_samples.h"
#include "real/data/image_samples.h"
#include "real/data/imported_samples.h"
#include "real/data/masked_samples.h"
#include "real/data/pair_samples.h"
#include "real/data/pixel_samples.h"
#include "real/data/samples.h"
#include "real/data/span_samples.h"
#include "real/data/tensor_samples.h"
#include "study/data_kinds.h"

namespace trainyard {

void Samples::fill_numbers(std::string_view name, std::int64_t, std::span<float>) const {
  bug("these samples have no input " + std::string(name) + " of real numbers");
}

void Samples::fill_doubles(std::string_view name, std::int64_t index, std::span<double> out) const {
  std::vector<float> numbers(out.size());
  fill_numbers(name, index, numbers);
  std::copy(numbers.begin(), numbers.end(), out.begin());
}

namespace {

/// The graph that says which inputs a sample has, and what the loss compares with.
Graph model_graph(const Study& study) {
  return build_model(study.model, {.microbatch = local_sizes(study.training, study.parallel)[0]});
}

/// Samples of class Generated, or of files.
template <class Generated>
std::unique_ptr<Samples> make_generated_or_read(const Study& study) {
  if (!is_of_files(study.data)) return std::make_unique<Generated>(study);
  return std::make_unique<TensorSamples>(study, model_graph(study));
}

std::unique_ptr<Samples> make_imported_samples(const Study& study) {
  const Graph graph = model_graph(study);
  const bool by_model = study.data.kind.empty() && text_input(graph).empty();
  if (is_of_files(study.data) && (by_model || study.data.kind == "tensors"))
    return std::make_unique<TensorSamples>(study, graph);
  return std::make_unique<ImportedSamples>(study, graph);
}

}  // namespace

std::unique_ptr<Samples> make_samples(const Study& study) {
  switch (study.model.family) {
    case Family::kGpt:
    case Family::kLlama:
    case Family::kMamba2: return std::make_unique<CausalSamples>(study);
    case Family::kBert: return std::make_unique<MaskedSamples>(study);
    case Family::kT5: return std::make_unique<SpanSamples>(study);
    case Family::kVit:
    case Family::kResnet:
    case Family::kVgg:
    case Family::kDensenet:
    case Family::kSwin: return make_generated_or_read<ImageSamples>(study);
    case Family::kUnet: return make_generated_or_read<PixelSamples>(study);
    case Family::kNcf: return make_generated_or_read<PairSamples>(study);
    case Family::kClip:
      if (is_of_files(study.data)) return std::make_unique<CaptionFiles>(study, model_graph(study));
      return std::make_unique<CaptionSamples>(study);
    case Family::kOnnx: return make_imported_samples(study);
  }
  bug("a family without samples");
}

}  // namespace trainyard
