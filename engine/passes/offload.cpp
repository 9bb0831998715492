#include "engine/passes/offload.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/graph/tensor_storage.h"

namespace trainyard {

namespace {

/// A storage that recomputation starts from.
struct Checkpoint {
  TensorId storage = kNoIndex;
  std::int32_t stage = 0;
  std::size_t first_reader = 0;  // index into TrainingGraph::backward: a recomputed instruction
  bool shared = false;           // by the layers of two stages
};

class Offloader {
 public:
  explicit Offloader(TrainingGraph& training) : training_(training) {}

  void run(int horizon, const Numbered<bool>& at_once) {
    find_writers();
    std::vector<Checkpoint> checkpoints = find_checkpoints();
    Numbered<std::int32_t> layers(at_once.size(),
                                  0);  // of the backward so far, with a checkpoint: [stage]
    Numbered<std::int32_t> latest(at_once.size(), -1);
    for (const Checkpoint& checkpoint : checkpoints) {
      const std::int32_t stage = checkpoint.stage;
      const std::int32_t layer = training_.backward[checkpoint.first_reader].layer;
      if (layers[stage] == 0 || latest[stage] != layer) ++layers[stage];
      latest[stage] = layer;
      const bool stays = checkpoint.shared || (at_once[stage] && layers[stage] <= horizon);
      if (!stays) offload(checkpoint);
    }
    replace();
    insert_copies();
  }

 private:
  Tensor& tensor(TensorId id) { return training_.graph.tensors[id]; }
  TensorId root(TensorId id) const { return storage_of(training_.graph, id); }

  void find_writers() {
    last_write_.assign(training_.graph.tensors.size(), std::nullopt);
    in_forward_.assign(training_.graph.tensors.size(), false);
    for (std::size_t i = 0; i < training_.forward.size(); ++i) {
      const Instruction& op = training_.forward[i];
      for (const TensorId write : op.writes) {
        last_write_[root(write)] = i;
        in_forward_[write] = true;
        if (op.kind == OpKind::kAllReduce) content_[root(write)] = write;
      }
    }
  }

  /// In the order in which the backward reads them.
  std::vector<Checkpoint> find_checkpoints() {
    std::vector<Checkpoint> out;
    std::unordered_map<TensorId, std::size_t> known;
    for (std::size_t i = 0; i < training_.backward.size(); ++i) {
      const Instruction& op = training_.backward[i];
      if (!op.recomputed) continue;
      for (const TensorId read : op.reads) {
        const TensorId storage = root(read);
        if (tensor(storage).role != TensorRole::kActivation || !last_write_[storage]) continue;
        const auto [it, fresh] = known.emplace(storage, out.size());
        if (fresh) out.push_back({storage, op.stage, i, false});
        if (out[it->second].stage != op.stage) out[it->second].shared = true;
      }
    }
    return out;
  }

  /// What a storage holds behind its last write: the sum, where summands are added up in place.
  TensorId content_of(TensorId storage) const {
    const auto found = content_.find(storage);
    return found == content_.end() ? storage : found->second;
  }

  TensorId add_tensor(Tensor t, const char* suffix, TensorId alias, bool on_host) {
    t.name += suffix;
    t.alias = alias;
    t.on_host = on_host;
    training_.graph.tensors.push_back(std::move(t));
    return TensorId(training_.graph.tensors.size() - 1);
  }

  void offload(const Checkpoint& checkpoint) {
    const Instruction reader = training_.backward[checkpoint.first_reader];
    const TensorId content = content_of(checkpoint.storage);
    const TensorId host = add_tensor(tensor(checkpoint.storage), ".host", kNoIndex, true);
    const TensorId load = add_tensor(tensor(checkpoint.storage), ".load", kNoIndex, false);
    tensor(host).spec = tensor(load).spec = tensor(content).spec;
    loaded_.emplace(checkpoint.storage, load);
    Instruction copy;
    copy.kind = OpKind::kCopy;
    copy.module = reader.module;
    copy.layer = reader.layer;
    copy.stage = checkpoint.stage;
    copy.origin = reader.origin;
    copy.reads = {content};
    copy.writes = {host};
    copies_.emplace(place_of(checkpoint), copy);
    copy.reads = {host};
    copy.writes = {load};
    copy.recomputed = true;
    training_.loads.push_back(std::move(copy));
  }

  /// The forward instruction before which the copy stands: behind the last that writes the storage,
  /// on its own stage; in a V the stage at the turn begins with it.
  std::size_t place_of(const Checkpoint& checkpoint) {
    const std::size_t written = *last_write_[checkpoint.storage];
    if (training_.forward[written].stage == checkpoint.stage) return written + 1;
    for (std::size_t i = written + 1; i < training_.forward.size(); ++i) {
      if (training_.forward[i].stage == checkpoint.stage) return i;
    }
    return training_.forward.size();
  }

  /// What stands for `id` in the backward: the same place in what was loaded.
  TensorId in_loaded(TensorId id) {
    if (const auto known = loaded_.find(id); known != loaded_.end()) return known->second;
    if (tensor(id).alias == kNoIndex) return id;
    const TensorId in = in_loaded(tensor(id).alias);
    if (in == tensor(id).alias) return id;
    if (!in_forward_[id]) {  // of the backward alone
      tensor(id).alias = in;
      return id;
    }
    const TensorId twin = add_tensor(tensor(id), ".load", in, false);
    in_forward_.resize(training_.graph.tensors.size(), false);
    loaded_.emplace(id, twin);
    return twin;
  }

  void replace() {
    in_forward_.resize(training_.graph.tensors.size(), false);
    for (Instruction& op : training_.backward) {
      for (TensorId& read : op.reads) read = in_loaded(read);
      for (TensorId& write : op.writes) write = in_loaded(write);
    }
  }

  void insert_copies() {
    std::vector<Instruction> merged;
    merged.reserve(training_.forward.size() + copies_.size());
    for (std::size_t i = 0; i <= training_.forward.size(); ++i) {
      const auto [first, last] = copies_.equal_range(i);
      for (auto it = first; it != last; ++it) merged.push_back(std::move(it->second));
      if (i < training_.forward.size()) merged.push_back(std::move(training_.forward[i]));
    }
    training_.forward = std::move(merged);
  }

  TrainingGraph& training_;
  Indexed<TensorId, std::optional<std::size_t>> last_write_;  // of storages: by the forward
  std::unordered_map<TensorId, TensorId> content_;  // of storages in which summands are added up
  Indexed<TensorId, bool> in_forward_;              // the forward writes it
  std::unordered_map<TensorId, TensorId> loaded_;   // what the forward wrote -> what stands for it
  std::multimap<std::size_t, Instruction> copies_;  // before the forward instruction
};

}  // namespace

void offload_checkpoints(TrainingGraph& training, const OffloadConfig& config,
                         const Numbered<bool>& at_once) {
  Offloader(training).run(config.horizon, at_once);
}

}  // namespace trainyard
