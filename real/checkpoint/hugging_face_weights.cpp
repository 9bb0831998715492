#include "real/checkpoint/hugging_face_weights.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/indexed.h"
#include "engine/base/json_fields.h"
#include "engine/base/mapped_file.h"
#include "engine/base/user_text.h"
#include "models/model.h"
#include "real/checkpoint/convert.h"
#include "real/checkpoint/host_file.h"
#include "real/checkpoint/hugging_face_names.h"
#include "real/checkpoint/hugging_face_tables.h"
#include "real/checkpoint/name_pattern.h"
#include "real/checkpoint/piece_runs.h"
#include "real/checkpoint/safetensors.h"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

/// Files to open for `path`; with an index, those that it names.
std::vector<std::string> files_of(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  const fs::path folder = path;
  const std::string single = (folder / "model.safetensors").string();
  if (fs::exists(single, error)) return {single};
  const std::string index = (folder / "model.safetensors.index.json").string();
  if (!fs::exists(index, error)) {
    refuse(path, "has neither model.safetensors nor model.safetensors.index.json");
  }
  const MappedFile file(index);
  const JsonFile json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()},
                      index);
  const JsonFields map = JsonFields(json).object("weight_map");
  std::set<std::string> names;
  for (const auto& [weight, value] : map.json().items()) {
    const std::string name = value.is_string() ? value.get<std::string>() : "";
    if (name.empty() || name.find('/') != std::string::npos) {
      map.fail(weight, "expected the name of a file beside it, got " + shorten(value));
    }
    names.insert((folder / name).string());
  }
  return {names.begin(), names.end()};
}

/// What `theirs` may be called: without the prefix in files of the base class, with gamma and beta
/// in files that were converted from TensorFlow.
std::vector<std::string> spellings(const std::string& theirs, std::string_view prefix) {
  std::vector<std::string> names = {theirs};
  if (!prefix.empty() && theirs.starts_with(prefix)) names.push_back(theirs.substr(prefix.size()));
  for (std::size_t i = 0, known = names.size(); i < known; ++i) {
    const std::string& name = names[i];
    if (name.ends_with("LayerNorm.weight")) {
      names.push_back(name.substr(0, name.rfind('.')) + ".gamma");
    } else if (name.ends_with("LayerNorm.bias")) {
      names.push_back(name.substr(0, name.rfind('.')) + ".beta");
    }
  }
  return names;
}

struct FoundTensor {
  const SafetensorsTensor* tensor = nullptr;
  std::string file;
};
using FoundTensors = std::map<std::string, FoundTensor>;  // by their name

/// What is saved with modules and is no weight: angles, masks, numbers of places and of batches.
bool is_buffer(const std::string& name, const SafetensorsTensor& tensor) {
  // T5's first files have a table that its classes do not read.
  constexpr std::string_view kEndings[] = {".inv_freq",
                                           ".position_ids",
                                           ".masked_bias",
                                           ".num_batches_tracked",
                                           ".relative_position_index",
                                           "EncDecAttention.relative_attention_bias.weight"};
  const bool mask = name.ends_with(".bias") && tensor.shape.size() == 4;
  return mask || std::any_of(std::begin(kEndings), std::end(kEndings),
                             [&](std::string_view ending) { return name.ends_with(ending); });
}

/// Whether the class has a weight of this name, whatever the model has; heads that start anew for
/// other tasks apart.
bool is_of_class(HuggingFaceType type, const std::string& name) {
  const std::string full = std::string(base_prefix(type)) + name;
  for (const std::span<const NameRow> table : name_tables(type)) {
    for (const NameRow& row : table) {
      if (row.ours == "pooler" || row.ours == "next_sentence_head") continue;
      for (const std::string& one : {name, full}) {
        if (one == row.theirs || one.substr(0, one.rfind('.')) == row.theirs) return true;
      }
    }
  }
  return false;
}

/// The tensor that holds `weight`, checked, which is then `used`; nullptr: there is none.
const SafetensorsTensor* find_tensor(const FoundTensors& theirs, const HuggingFaceWeight& weight,
                                     std::string_view prefix, std::set<std::string>& used) {
  for (const std::string& name : spellings(weight.theirs, prefix)) {
    const auto found = theirs.find(name);
    if (found == theirs.end()) continue;
    used.insert(name);
    const auto& [tensor, file] = found->second;
    if (tensor->shape != weight.their_shape) {
      refuse(file, name + ": of shape " + shape_text(tensor->shape) + ", where " + weight.ours +
                       " needs " + shape_text(weight.their_shape));
    }
    if (!tensor->dtype || !is_convertible(*tensor->dtype, DType::kFp32)) {
      refuse(file, name + ": is " + tensor->dtype_name +
                       ", expected a floating-point type of 16 bits or more");
    }
    return tensor;
  }
  return nullptr;
}

/// What is read from tensors that the files lack: each with a weight of ours.
std::string without(const std::vector<const HuggingFaceWeight*>& missing) {
  constexpr std::int64_t kShown = 20;
  std::vector<std::string> shown;
  for (const HuggingFaceWeight* one : missing) {
    if (std::ssize(shown) < kShown) shown.push_back(one->theirs);
  }
  if (missing.size() == 1)
    return "has no " + shown.front() + ", which " + missing.front()->ours + " is read from";
  if (std::ssize(missing) > kShown)
    shown.push_back(std::to_string(std::ssize(missing) - kShown) + " more");
  return "lacks " + std::to_string(missing.size()) + " tensors of the model: " + join_words(shown);
}

struct Source {
  HuggingFaceWeight weight;
  const SafetensorsTensor* tensor = nullptr;
};

using Sources = std::vector<Source>;  // of one weight: its parts in order

/// Theirs is ours with other rows around it, or between runs of its rows, or has one of the parts
/// of each of its heads.
void read_rows(const Sources& sources, const Piece& wanted, std::span<std::byte> out) {
  const std::int64_t width = product(wanted.shape) / wanted.shape.front();
  for (RunCursor run(wanted); !run.done();) {
    const std::int64_t row = run.global() / width, column = run.global() % width;
    const HeadPart& part = sources.front().weight.part;
    const std::int64_t place = part.of == 1 ? 0 : row / part.rows;  // among the parts of all heads
    const auto& [weight, tensor] = *(sources.begin() + place % part.of);
    const std::int64_t held = part.of == 1 ? row : place / part.of * part.rows + row % part.rows;
    const std::int64_t run_rows = part.of > 1      ? part.rows
                                  : weight.run > 0 ? weight.run
                                                   : wanted.shape.front();
    const std::int64_t together = (run_rows - row % run_rows) * width - column;
    const std::int64_t count = std::min(run.length(), together);
    const std::int64_t at = their_row(weight, held) * width + column;
    const DType dtype = *tensor->dtype;
    convert(dtype, tensor->data.data() + at * size_in_bytes(dtype), wanted.dtype,
            out.data() + run.local() * size_in_bytes(wanted.dtype), count);
    run.advance(count);
  }
}

/// Theirs is ours and a number, which is taken off before anything is rounded.
void read_less(const Sources& sources, const Piece& wanted, std::span<std::byte> out) {
  Piece exact = wanted;
  exact.dtype = DType::kFp64;
  Numbered<double> numbers(wanted.flat_end - wanted.flat_begin);
  read_rows(sources, exact, std::as_writable_bytes(std::span(numbers)));
  for (double& number : numbers) number -= sources.front().weight.offset;
  convert(DType::kFp64, std::as_bytes(std::span(numbers)).data(), wanted.dtype, out.data(),
          std::ssize(numbers));
}

/// Theirs is [in, rows]: what is a row of ours is a column there.
void read_columns(const Source& source, const Piece& wanted, std::span<std::byte> out) {
  const std::int64_t width = wanted.shape[1];
  const DType dtype = *source.tensor->dtype;
  const std::int64_t size = size_in_bytes(dtype);
  Numbered<std::byte> row(width * size);
  for (RunCursor run(wanted); !run.done();) {
    const std::int64_t r = run.global() / width;
    const std::int64_t c = run.global() % width;
    const std::int64_t count = std::min(run.length(), width - c);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = (c + i) * source.weight.rows + source.weight.first_row + r;
      std::copy_n(source.tensor->data.data() + at * size, size, row.data() + i * size);
    }
    convert(dtype, row.data(), wanted.dtype, out.data() + run.local() * size_in_bytes(wanted.dtype),
            count);
    run.advance(count);
  }
}

}  // namespace

struct HuggingFaceWeights::Parts {
  std::string path;
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  FoundTensors theirs;
  HuggingFaceType type{};
  std::set<std::string> used;              // of theirs
  std::map<std::string, Sources> sources;  // by our name
};

HuggingFaceWeights::HuggingFaceWeights(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
HuggingFaceWeights::HuggingFaceWeights(HuggingFaceWeights&&) noexcept = default;
HuggingFaceWeights& HuggingFaceWeights::operator=(HuggingFaceWeights&&) noexcept = default;
HuggingFaceWeights::~HuggingFaceWeights() = default;

HuggingFaceWeights HuggingFaceWeights::open(const std::string& path, const ModelConfig& config) {
  auto parts = std::make_unique<Parts>();
  parts->path = path;
  FoundTensors& theirs = parts->theirs;
  for (const std::string& file : files_of(path)) {
    parts->files.push_back(std::make_unique<SafetensorsFile>(file));
    for (const auto& [name, tensor] : parts->files.back()->tensors()) {
      theirs[name] = {&tensor, parts->files.back()->path()};
    }
  }
  const Graph graph = graph_of_weights(config);
  std::string problem;
  for (const HuggingFaceType type : hugging_face_types(config)) {
    std::vector<const HuggingFaceWeight*> missing;  // each tensor of theirs once
    std::set<std::string_view> noted;
    const auto note = [&](const HuggingFaceWeight& weight) {
      if (noted.insert(weight.theirs).second) missing.push_back(&weight);
    };
    const std::vector<HuggingFaceWeight> weights = hugging_face_weights(type, graph);
    parts->type = type;
    parts->used.clear();
    parts->sources.clear();
    for (const HuggingFaceWeight& weight : weights) {
      Sources& known = parts->sources[weight.ours];
      const SafetensorsTensor* tensor = find_tensor(theirs, weight, base_prefix(type), parts->used);
      if (std::ssize(known) == weight.part.of) continue;  // the copy of what they keep twice
      if (tensor != nullptr) known.push_back({weight, tensor});
      if (tensor == nullptr && weight.part.of > 1) note(weight);
    }
    for (const HuggingFaceWeight& weight : weights) {
      if (parts->sources[weight.ours].empty()) note(weight);
    }
    if (missing.empty()) return HuggingFaceWeights(std::move(parts));
    if (problem.empty()) problem = without(missing);  // of the usual class
  }
  refuse(path, problem);
}

const std::set<std::string>& HuggingFaceWeights::names() const { return parts_->used; }

HuggingFaceWeights::LeftOver HuggingFaceWeights::left_over() const {
  LeftOver out;
  const auto is_copy = [&](const SafetensorsTensor& tensor) {
    return std::any_of(parts_->used.begin(), parts_->used.end(), [&](const std::string& name) {
      const SafetensorsTensor& read = *parts_->theirs.at(name).tensor;
      return read.shape == tensor.shape && read.dtype == tensor.dtype &&
             std::equal(read.data.begin(), read.data.end(), tensor.data.begin(), tensor.data.end());
    });
  };
  for (const auto& [name, found] : parts_->theirs) {
    if (parts_->used.contains(name) || is_buffer(name, *found.tensor) || is_copy(*found.tensor))
      continue;
    const bool in_layer = pattern_of(name) != name;
    (in_layer || is_of_class(parts_->type, name) ? out.of_model : out.of_heads).push_back(name);
  }
  return out;
}

void HuggingFaceWeights::read(const Piece& wanted, std::span<std::byte> out) const {
  const std::string problem = find_problem(wanted);
  check(problem.empty(), problem.c_str());
  check(static_cast<std::int64_t>(out.size()) == num_bytes(wanted), "room for the piece");
  const auto found = parts_->sources.find(wanted.tensor);
  if (found == parts_->sources.end()) refuse(parts_->path, "has no tensor " + wanted.tensor);
  const Sources& sources = found->second;
  const Source& source = sources.front();
  if (source.weight.shape != wanted.shape) {
    refuse(parts_->path, wanted.tensor + ": of shape " + shape_text(source.weight.shape) +
                             ", expected " + shape_text(wanted.shape));
  }
  if (!is_convertible(*source.tensor->dtype, wanted.dtype)) {
    refuse(parts_->path, wanted.tensor + ": is " + source.tensor->dtype_name + ", expected " +
                             std::string(to_string(wanted.dtype)));
  }
  if (source.weight.offset != 0) {
    read_less(sources, wanted, out);
  } else if (source.weight.transposed) {
    read_columns(source, wanted, out);
  } else {
    read_rows(sources, wanted, out);
  }
}

}  // namespace trainyard
