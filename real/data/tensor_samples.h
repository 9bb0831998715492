// Samples from files that hold a tensor for each input of the model, by the input's name, with
// samples along the first dim: images and their classes, or whatever an imported model reads.
//
//   real numbers  fp16, bf16, fp32 and fp64 as they are; bytes of an image [C, H, W] as x / 255,
//                 of which data.mean is taken and which is divided by data.std, per channel
//   whole ones    int64, int32 or bytes, within the table or the classes that they name
//   targets       of a binary cross entropy: bytes of 0 and 1, too
//
// Masks, positions and token types may be left out: they are ones, 0, 1, ... and zeros then.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/indexed.h"
#include "engine/data/epoch_order.h"
#include "engine/graph/graph.h"
#include "real/data/sample_inputs.h"
#include "real/data/samples.h"
#include "real/data/tensor_files.h"

namespace trainyard {

class TensorSamples final : public Samples {
 public:
  /// `graph`: of the study's model, whose inputs `elsewhere` others fill. Throws ConfigError at
  /// data.path where the files lack a tensor of the model, or have one of another shape, type or
  /// number of samples.
  TensorSamples(const Study& study, const Graph& graph,
                std::span<const std::string_view> elsewhere = {});

  /// All throw ConfigError with file, sample and value where a label or an index is out of range,
  /// or a number is not finite: files are too large to be checked as a whole before training.
  void fill(std::string_view name, std::int64_t index, std::span<std::int64_t> out) const override;
  void fill_numbers(std::string_view name, std::int64_t index, std::span<float> out) const override;
  void fill_doubles(std::string_view name, std::int64_t index,
                    std::span<double> out) const override;
  std::int64_t predicted_per_sample() const override { return targets_; }
  std::optional<double> best_loss() const override { return std::nullopt; }
  std::string description() const override;
  std::int64_t size() const { return ends_.back(); }  // samples of an epoch

 private:
  struct Input : SampleInput {
    std::vector<const StoredTensor*> stored;  // by shard; empty: made
  };
  /// A sample in its file.
  struct Place {
    const StoredTensor* tensor = nullptr;
    std::int64_t sample = 0;
    const std::byte* data = nullptr;
  };

  void read_files(const Graph& graph, std::span<const std::string_view> elsewhere);
  void add_shard(const TensorFiles::Shard& shard, std::vector<Input>& inputs);
  void make_pixels(const Study& study);
  const Input& input(std::string_view name) const;
  Place place_of(const Input& input, std::int64_t index) const;
  template <class Number>
  void fill_real(std::string_view name, std::int64_t index, std::span<Number> out) const;
  template <class Number>
  void fill_bytes(const Input& input, const std::byte* from, std::span<Number> out) const;

  std::string path_;
  TensorFiles files_;
  EpochOrder order_;
  std::vector<std::int64_t> ends_;  // samples of all shards up to and with each
  std::int64_t targets_ = 0;        // of one sample
  std::map<std::string, Input, std::less<>> inputs_;
  Numbered<double> pixels_;  // [channel, byte]: what a byte of an image is; one channel: of all
};

}  // namespace trainyard
