#include "engine/base/error.h"
#include "real/data/causal_samples.h"
#include "real/data/image_samples.h"
#include "real/data/imported_samples.h"
#include "real/data/masked_samples.h"
#include "real/data/pixel_samples.h"
#include "real/data/samples.h"
#include "real/data/span_samples.h"

namespace trainyard {

void Samples::fill_numbers(std::string_view name, std::int64_t, std::span<float>) const {
  bug("these samples have no input " + std::string(name) + " of real numbers");
}

std::unique_ptr<Samples> make_samples(const Study& study) {
  switch (study.model.family) {
    case Family::kGpt:
    case Family::kLlama: return std::make_unique<CausalSamples>(study);
    case Family::kBert: return std::make_unique<MaskedSamples>(study);
    case Family::kT5: return std::make_unique<SpanSamples>(study);
    case Family::kVit:
    case Family::kResnet:
    case Family::kVgg:
    case Family::kDensenet:
    case Family::kSwin: return std::make_unique<ImageSamples>(study);
    case Family::kUnet: return std::make_unique<PixelSamples>(study);
    case Family::kOnnx: return std::make_unique<ImportedSamples>(study);
  }
  bug("a family without samples");
}

}  // namespace trainyard
