#include "real/data/tensor_samples.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "engine/base/error.h"
#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "engine/data/token_type.h"
#include "real/checkpoint/convert.h"
#include "real/checkpoint/host_file.h"
#include "real/checkpoint/piece.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

constexpr std::int64_t kByteValues = 256;

std::string text(std::int64_t value) { return std::to_string(value); }

/// "[N, 3, 32, 32]".
std::string expected_shape(const SampleInput& input) {
  std::string shape = "[N";
  for (const std::int64_t size : input.shape) shape += ", " + text(size);
  return shape + "]";
}

bool is_image(const SampleInput& input) {
  return input.kind == SampleInput::Kind::kNumbers && input.role == SampleInput::Role::kRead &&
         input.shape.size() == 3;
}

/// Why a tensor of that type cannot be the input; empty: it can.
std::string type_problem(const SampleInput& input, const StoredTensor& stored) {
  const bool is_bytes = stored.dtype == DType::kUint8;
  if (input.whole) {
    if (stored.dtype && is_integer(*stored.dtype)) return "";
    return "expected int64, int32 or uint8";
  }
  if (stored.dtype && !is_integer(*stored.dtype)) return "";
  if (is_bytes && (is_image(input) || input.shares)) return "";
  const std::string floats = "expected fp32, fp64, fp16 or bf16";
  if (is_image(input)) return floats + ", or uint8 for pixels";
  return input.shares ? floats + ", or uint8 for 0 and 1" : floats;
}

/// Refuses element `element` of a sample.
[[noreturn]] void refuse_value(const SampleInput& input, const StoredTensor& stored,
                               std::int64_t sample, std::int64_t element,
                               const std::string& problem) {
  const std::string at = input.elements() == 1 ? "" : ", element " + text(element) + ",";
  throw ConfigError(stored.file + ": " + input.name + " of sample " + text(sample) + at + " is " +
                    problem);
}

template <class Stored>
void copy_whole(const std::byte* from, std::span<std::int64_t> out) {
  for (std::int64_t& value : out) {
    value = load_unaligned<Stored>(from);
    from += sizeof(Stored);
  }
}

}  // namespace

TensorSamples::TensorSamples(const Study& study, const Graph& graph,
                             std::span<const std::string_view> elsewhere)
    : path_(study.data.path),
      order_{study.data.shuffle, study.training.seed} {
  try {
    files_ = TensorFiles::open(path_);
    read_files(graph, elsewhere);
  } catch (const ConfigError& error) {
    fail_at(study, "data.path", error.what());
  }
  make_pixels(study);
}

void TensorSamples::read_files(const Graph& graph, std::span<const std::string_view> elsewhere) {
  std::vector<Input> inputs;
  for (const SampleInput& input : sample_inputs(graph)) {
    if (std::find(elsewhere.begin(), elsewhere.end(), input.name) == elsewhere.end())
      inputs.push_back({input, {}});
  }
  for (const TensorFiles::Shard& shard : files_.shards()) add_shard(shard, inputs);
  if (ends_.back() == 0) refuse(path_, "has no samples");
  for (Input& input : inputs) {
    if (input.role == SampleInput::Role::kTarget) targets_ += input.elements();
    inputs_.emplace(input.name, std::move(input));
  }
}

void TensorSamples::add_shard(const TensorFiles::Shard& shard, std::vector<Input>& inputs) {
  std::vector<std::string> known;
  const Input* counted = nullptr;
  std::int64_t samples = 0;
  for (Input& input : inputs) {
    known.push_back(input.name + " " + expected_shape(input));
    const auto found = shard.tensors.find(input.name);
    if (found == shard.tensors.end()) continue;
    const StoredTensor& stored = found->second;
    const std::string named = input.name + ": ";
    if (!std::equal(input.shape.begin(), input.shape.end(),
                    stored.shape.begin() + (stored.shape.empty() ? 0 : 1), stored.shape.end()) ||
        stored.shape.empty())
      refuse(stored.file, named + "expected shape " + expected_shape(input) + ", found " +
                              shape_text(stored.shape));
    if (const std::string problem = type_problem(input, stored); !problem.empty())
      refuse(stored.file, named + problem + ", found " + stored.type_name);
    if (counted == nullptr) {
      counted = &input;
      samples = stored.shape[0];
    } else if (stored.shape[0] != samples) {
      refuse(stored.file, named + "has " + text(stored.shape[0]) + " samples, and " +
                              counted->name + " has " + text(samples));
    }
    input.stored.push_back(&stored);
  }
  for (const Input& input : inputs) {
    if (input.stored.size() == ends_.size() + 1 || (input.is_made() && input.stored.empty()))
      continue;
    refuse(shard.path, "has no tensor " + input.name + "; the model reads " + join_words(known));
  }
  for (const auto& [name, stored] : shard.tensors) {
    const auto named = [&name = name](const Input& input) { return input.name == name; };
    if (std::none_of(inputs.begin(), inputs.end(), named))
      refuse(stored.file,
             in_quotes(name) + " is no input of the model, which reads " + join_words(known));
  }
  ends_.push_back((ends_.empty() ? 0 : ends_.back()) + samples);
}

void TensorSamples::make_pixels(const Study& study) {
  const std::vector<double>&mean = study.data.mean, &std = study.data.std;
  bool has_images = false;
  for (const auto& [name, input] : inputs_) {
    const bool is_bytes =
        std::any_of(input.stored.begin(), input.stored.end(),
                    [](const StoredTensor* stored) { return stored->dtype == DType::kUint8; });
    if (!is_image(input) || !is_bytes) continue;
    has_images = true;
    for (const auto& [key, values] : {std::pair("data.mean", mean), {"data.std", std}}) {
      if (values.size() == 1 || std::ssize(values) == input.shape[0]) continue;
      fail_at(study, key,
              "expected one number, or " + text(input.shape[0]) + " for the channels of " + name +
                  ", got " + text(std::ssize(values)));
    }
  }
  if (!has_images) {
    for (const auto& [key, values, usual] :
         {std::tuple("data.mean", mean, 0.0), {"data.std", std, 1.0}}) {
      if (values.size() == 1 && values[0] == usual) continue;
      fail_at(study, key, "is of images of bytes, and " + path_ + " has none");
    }
    return;
  }
  for (std::size_t channel = 0; channel < std::max(mean.size(), std.size()); ++channel) {
    const double of_mean = mean[mean.size() == 1 ? 0 : channel];
    const double of_std = std[std.size() == 1 ? 0 : channel];
    for (std::int64_t byte = 0; byte < kByteValues; ++byte)
      pixels_.push_back((static_cast<double>(byte) / 255 - of_mean) / of_std);
  }
}

const TensorSamples::Input& TensorSamples::input(std::string_view name) const {
  const auto found = inputs_.find(name);
  if (found == inputs_.end()) bug("the model has no input " + std::string(name));
  return found->second;
}

TensorSamples::Place TensorSamples::place_of(const Input& of, std::int64_t index) const {
  const std::int64_t item = order_.item_at(index, ends_.back());
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), item);
  Place place;
  place.sample = end == ends_.begin() ? item : item - *(end - 1);
  place.tensor = *(of.stored.begin() + (end - ends_.begin()));
  place.data = place.tensor->data.data() +
               place.sample * of.elements() * size_in_bytes(*place.tensor->dtype);
  return place;
}

void TensorSamples::fill(std::string_view name, std::int64_t index,
                         std::span<std::int64_t> out) const {
  const Input& of = input(name);
  check(of.whole && std::ssize(out) == of.elements(), "an input of whole numbers");
  if (of.stored.empty()) return fill_made(of, out);
  const Place place = place_of(of, index);
  switch (*place.tensor->dtype) {
    case DType::kInt64: copy_whole<std::int64_t>(place.data, out); break;
    case DType::kInt32: copy_whole<std::int32_t>(place.data, out); break;
    default: copy_whole<std::uint8_t>(place.data, out);
  }
  if (of.below == 0) return;
  for (auto value = out.begin(); value != out.end(); ++value) {
    if (*value >= 0 && *value < of.below) continue;
    const bool target = of.role == SampleInput::Role::kTarget;
    refuse_value(of, *place.tensor, place.sample, value - out.begin(),
                 text(*value) + "; the model has " + (target ? "the classes" : "rows") + " 0 to " +
                     text(of.below - 1));
  }
}

template <class Number>
void TensorSamples::fill_bytes(const Input& of, const std::byte* from,
                               std::span<Number> out) const {
  if (of.shares) {
    for (Number& value : out) value = std::to_integer<std::uint8_t>(*from++);
    return;
  }
  const std::int64_t channels = std::ssize(pixels_) / kByteValues;
  const std::int64_t each = of.elements() / std::max<std::int64_t>(of.shape[0], 1);
  std::int64_t element = 0;
  for (Number& value : out) {
    const std::int64_t channel = channels == 1 ? 0 : element++ / each;
    value = static_cast<Number>(
        pixels_[channel * kByteValues + std::to_integer<std::int64_t>(*from++)]);
  }
}

template <class Number>
void TensorSamples::fill_real(std::string_view name, std::int64_t index,
                              std::span<Number> out) const {
  const Input& of = input(name);
  check(!of.whole && std::ssize(out) == of.elements(), "an input of real numbers");
  if (of.stored.empty()) return fill_made(of, out);
  const Place place = place_of(of, index);
  const DType stored = *place.tensor->dtype;
  if (stored == DType::kUint8) {
    fill_bytes(of, place.data, out);
  } else {
    const DType wanted = std::is_same_v<Number, float> ? DType::kFp32 : DType::kFp64;
    convert(stored, place.data, wanted, std::as_writable_bytes(out).data(), std::ssize(out));
  }
  for (auto value = out.begin(); value != out.end(); ++value) {
    const double number = *value;
    if (std::isfinite(number) && (!of.shares || (number >= 0 && number <= 1))) continue;
    refuse_value(of, *place.tensor, place.sample, value - out.begin(),
                 std::isnan(number)
                     ? "nan"
                     : number_text(number) + (of.shares ? "; targets of a binary cross entropy lie "
                                                          "in 0 to 1"
                                                        : ""));
  }
}

void TensorSamples::fill_numbers(std::string_view name, std::int64_t index,
                                 std::span<float> out) const {
  fill_real(name, index, out);
}

void TensorSamples::fill_doubles(std::string_view name, std::int64_t index,
                                 std::span<double> out) const {
  fill_real(name, index, out);
}

std::string TensorSamples::description() const {
  const std::string files =
      files_.shards().size() == 1 ? "" : " in " + text(std::ssize(files_.shards())) + " files";
  return path_ + ": " + text(ends_.back()) + " samples an epoch" + files + ", " +
         (order_.shuffle ? "shuffled" : "in order");
}

}  // namespace trainyard
