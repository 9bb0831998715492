#include "real/checkpoint/save_hugging_face.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/indexed.h"
#include "models/model.h"
#include "real/checkpoint/convert.h"
#include "real/checkpoint/host_file.h"
#include "real/checkpoint/hugging_face_names.h"
#include "real/checkpoint/safetensors.h"
#include "real/checkpoint/stored_weights.h"

namespace trainyard {

namespace {

using Weights = std::vector<HuggingFaceWeight>;

constexpr std::int64_t kBufferElements = std::int64_t{1} << 24U;

/// A number, and what theirs has beside it.
std::vector<std::byte> read_and_more(const Checkpoint& checkpoint, const HuggingFaceWeight& weight,
                                     DType dtype) {
  check(product(weight.shape) == 1, "one number is read as a whole");
  double number = 0;
  checkpoint.read(whole_tensor(weight.ours, DType::kFp64, weight.shape),
                  std::as_writable_bytes(std::span(&number, 1)));
  number += weight.offset;
  std::vector<std::byte> bytes(size_in_bytes(dtype));
  convert(DType::kFp64, std::as_bytes(std::span(&number, 1)).data(), dtype, bytes.data(), 1);
  return bytes;
}

std::vector<std::byte> read_rectangle(const Checkpoint& checkpoint, const HuggingFaceWeight& weight,
                                      DType dtype, std::size_t dim, std::int64_t begin,
                                      std::int64_t count) {
  if (weight.offset != 0) return read_and_more(checkpoint, weight, dtype);
  std::vector<std::int64_t> start(weight.shape.size(), 0);
  std::vector<std::int64_t> extent = weight.shape;
  start[dim] = begin;
  extent[dim] = count;
  const Piece piece = rectangle(weight.ours, dtype, weight.shape, start, extent);
  std::vector<std::byte> bytes(num_bytes(piece));
  checkpoint.read(piece, bytes);
  return bytes;
}

/// The weights that one tensor of theirs stacks, one behind the other, or a run of each in turn.
void write_rows(const Checkpoint& checkpoint, std::span<const HuggingFaceWeight> stack, DType dtype,
                SafetensorsWriter& writer) {
  const auto run_of = [](const HuggingFaceWeight& weight) {
    if (weight.part.of > 1) return weight.part.rows;
    return weight.run > 0 ? weight.run : weight.shape.front();
  };
  const std::int64_t turns = held_rows(stack.front()) / run_of(stack.front());
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    for (const HuggingFaceWeight& weight : stack) {
      const std::int64_t width = product(weight.shape) / weight.shape.front();
      const std::int64_t at_once = std::max<std::int64_t>(1, kBufferElements / width);
      const std::int64_t begin = our_row(weight, turn * run_of(weight)),
                         end = begin + run_of(weight);
      for (std::int64_t r = begin; r < end; r += at_once)
        writer.append(read_rectangle(checkpoint, weight, dtype, 0, r, std::min(at_once, end - r)));
    }
  }
}

/// The same for a tensor [in, rows]: a few columns of ours at a time become rows.
void write_columns(const Checkpoint& checkpoint, std::span<const HuggingFaceWeight> stack,
                   DType dtype, SafetensorsWriter& writer) {
  const std::int64_t width = stack.front().shape[1];
  const std::int64_t rows = stack.front().rows;
  const std::int64_t at_once = std::clamp<std::int64_t>(kBufferElements / rows, 1, width);
  const std::int64_t size = size_in_bytes(dtype);
  Numbered<std::byte> out(at_once * rows * size);
  for (std::int64_t begin = 0; begin < width; begin += at_once) {
    const std::int64_t columns = std::min(at_once, width - begin);
    for (const HuggingFaceWeight& weight : stack) {
      const std::vector<std::byte> in =
          read_rectangle(checkpoint, weight, dtype, 1, begin, columns);
      for (std::int64_t r = 0; r < weight.shape[0]; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) {
          const std::int64_t to = c * rows + weight.first_row + r;
          std::copy_n(in.data() + (r * columns + c) * size, size, out.data() + to * size);
        }
      }
    }
    writer.append(std::span(out).first(columns * rows * size));
  }
}

void write_weights(const Checkpoint& checkpoint, const Weights& weights, DType dtype,
                   const std::string& path, const std::string& written_by) {
  std::vector<std::span<const HuggingFaceWeight>> stacks;  // one for each tensor of theirs
  std::vector<SafetensorsEntry> entries;
  for (std::size_t i = 0; i < weights.size();) {
    std::size_t end = i;
    while (end < weights.size() && weights[end].theirs == weights[i].theirs) ++end;
    stacks.emplace_back(weights.data() + i, end - i);
    entries.push_back({weights[i].theirs, dtype, weights[i].their_shape});
    i = end;
  }
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  if (!written_by.empty()) metadata["written_by"] = written_by;
  SafetensorsWriter writer(path, entries, metadata);
  for (const auto& stack : stacks) {
    if (stack.front().transposed) {
      write_columns(checkpoint, stack, dtype, writer);
    } else {
      write_rows(checkpoint, stack, dtype, writer);
    }
  }
  writer.finish();
}

std::filesystem::path made_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw BackendError(folder + ": cannot create: " + error.message());
  return folder;
}

}  // namespace

void save_hugging_face(const Checkpoint& checkpoint, const ModelConfig& config,
                       const std::string& folder, DType dtype, const std::string& written_by) {
  const std::string text = hugging_face_config(config, dtype);
  const Weights weights = hugging_face_weights(hugging_face_type(config), graph_of_weights(config));
  const std::filesystem::path path = made_folder(folder);
  write_weights(checkpoint, weights, dtype, (path / "model.safetensors").string(), written_by);
  OutputFile file((path / "config.json").string());
  file.append(std::as_bytes(std::span(text)));
  file.finish();
}

std::vector<std::string> notes_on_reading(const ModelConfig& config) {
  if (config.family != Family::kMamba2 || config.groups == 1) return {};
  return {"Mamba2ForCausalLM norms each of the " + std::to_string(config.groups) +
          " groups by itself, as here, in transformers 5.23.0; 4.46.3 does in "
          "mamba_ssm's kernels alone, and elsewhere takes one norm over all groups"};
}

void save_own_weights(const Checkpoint& checkpoint, const Graph& graph, const std::string& folder,
                      DType dtype, const std::string& written_by) {
  Weights weights;
  for (const StoredWeight& stored : stored_weights(graph)) {
    HuggingFaceWeight weight{stored.name, stored.shape, stored.name};
    weight.rows = stored.shape.front();
    weight.their_shape = stored.dims;
    weights.push_back(std::move(weight));
  }
  const std::filesystem::path path = made_folder(folder);
  write_weights(checkpoint, weights, dtype, (path / "model.safetensors").string(), written_by);
}

}  // namespace trainyard
