// Which instruction of a piece is the last to touch a storage: behind it, what nobody else wants is
// freed.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <unordered_map>
#include <vector>

#include "engine/graph/tensor_storage.h"
#include "engine/passes/place_loads.h"

namespace trainyard {

class LastUses {
 public:
  /// `graph` must outlive it.
  explicit LastUses(const Graph& graph) : graph_(graph), last_(graph.tensors.size(), 0) {}

  /// Finds those of one piece, until the next call. What is copied back from the host is touched
  /// there, too, by all that reads the copy: to free it right behind the copy would make the main
  /// stream wait for that.
  void find(const PlacedLoads& piece);

  /// Calls visit(storage) for what instruction i of the piece touches and none behind it, maybe
  /// several times.
  template <typename Visit>
  void for_ending_at(std::size_t i, const Visit& visit) const {
    for (const std::size_t user : released_[i]) {
      for_storages(*(*instructions_)[user], [&](TensorId storage) {
        if (last_[storage] == i) visit(storage);
      });
    }
  }

 private:
  TensorId root(TensorId id) const { return storage_of(graph_, id); }
  template <typename Visit>
  void for_storages(const Instruction& op, const Visit& visit) const {
    const auto see = [&](TensorId tensor) {
      const TensorId storage = root(tensor);
      visit(storage);
      if (loaded_from_.empty()) return;
      const auto host = loaded_from_.find(storage);
      if (host != loaded_from_.end()) visit(host->second);
    };
    for (const TensorId read : op.reads) see(read);
    for (const TensorId write : op.writes) see(write);
  }

  const Graph& graph_;
  const std::vector<const Instruction*>* instructions_ = nullptr;
  Indexed<TensorId, std::size_t> last_;  // of storages: instruction of the piece
  std::vector<boost::container::small_vector<std::size_t, 1>>
      released_;  // [instruction]: whose operands go with it
  std::unordered_map<TensorId, TensorId>
      loaded_from_;  // what was copied back -> where it lies on the host
};

}  // namespace trainyard
