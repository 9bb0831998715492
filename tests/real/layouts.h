// The layouts that have to train as one device does, and the small models they are tried on.
#pragma once

#include <string>
#include <vector>

namespace trainyard {

/// Factors of a layout and their values.
struct Layout {
  int data, tensor, pipeline, virtual_stages;
  bool sequence_parallel;
  int zero;
  std::string recompute;
  int microbatch;
  std::string schedule;
  bool dropout;
};

/// A sharding of the user's own over two tensor axes, as --set: MLPs as ATP splits them, so that
/// what one axis splits the other sums up.
inline const std::string kAtpSharding =
    "sharding={'*.mlp.fc1': {weight: [tp0, tp1], output: '[R, R, tp0] R(tp1)'}, "
    "'*.mlp.fc2': {weight: [tp1, tp0], output: '[R, R, tp1] R(tp0)'}}";

/// Options as --set takes them.
using Sets = std::vector<std::string>;
Sets joined(Sets a, const Sets& b);

/// Two groups of four ranks that share tensors: ZeRO of every stage, and schedules of two pipeline
/// ranks.
const std::vector<Sets>& around_four_ranks();

/// All layouts on at most 8 ranks that can run, in a fixed order.
std::vector<Layout> all_layouts();

/// As --set; dropout is in the study.
std::vector<std::string> sets_of(const Layout& layout);

/// Llama drops out nothing.
bool fits(const std::string& family, const Layout& layout);

/// A study of one rank. `family`: gpt, llama, bert, bert-next, t5; `training`: further keys.
std::string parity_study(const std::string& family, const std::string& training);

}  // namespace trainyard
