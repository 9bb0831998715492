#include "real/train/run_checkpoint.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "real/checkpoint/checkpoint_folder.h"
#include "real/checkpoint/checkpoint_writer.h"
#include "real/checkpoint/stored_weights.h"
#include "real/checkpoint/training_state.h"
#include "real/parameters/rank_coordinates.h"
#include "real/train/scale_states.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

DType stored_type(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? DType::kFp64 : DType::kFp32;
}

/// A tensor of a bucket: its elements are those of the bucket from `begin` on.
struct BucketPart {
  std::string prefix;  // of the names of what is stored
  at::Tensor tensor;
  std::int64_t begin = 0;
};

/// Weights in the precision in which they are updated, and the optimizer's state.
std::vector<BucketPart> parts_of(RankExecutor& executor, const BucketState& bucket) {
  std::vector<BucketPart> parts;
  const auto add = [&](std::string_view prefix, ValueId value) {
    if (value == kNoIndex) return;
    const at::Tensor tensor = executor.values().tensor(value, 0);
    parts.push_back(
        {std::string(prefix), tensor, tensor.numel() == bucket.elements ? 0 : bucket.own_begin});
  };
  add("", bucket.master != kNoIndex ? bucket.master : bucket.parameter);
  add(kFirstMoment, bucket.first_moment);
  add(kSecondMoment, bucket.second_moment);
  return parts;
}

/// The elements of `weight` that lie in [begin, end) of the bucket.
Piece piece_of(const WeightPiece& weight, const BucketPart& part, std::int64_t begin,
               std::int64_t end) {
  Piece piece;
  piece.tensor = part.prefix + weight.weight;
  piece.dtype = stored_type(part.tensor);
  piece.shape = weight.shape;
  piece.start = {weight.first_row};
  piece.extent = {weight.rows};
  if (weight.shape.size() > 1) {
    piece.start.push_back(weight.first_column);
    piece.extent.push_back(weight.columns);
  }
  const std::int64_t size = weight.rows * weight.columns;
  piece.flat_begin = std::clamp<std::int64_t>(begin - weight.offset, 0, size);
  piece.flat_end = std::clamp<std::int64_t>(end - weight.offset, 0, size);
  return piece;
}

at::Tensor elements_of(const WeightPiece& weight, const BucketPart& part, const Piece& piece) {
  return part.tensor.narrow(0, weight.offset + piece.flat_begin - part.begin, num_elements(piece));
}

struct Written {
  Piece piece;
  at::Tensor elements;
};

/// What this rank writes: of replicas the first, each element once over all ranks.
std::vector<Written> pieces_to_write(RankTrainer& trainer) {
  RankExecutor& executor = trainer.executor();
  const std::int64_t copy = copy_at(executor.plan().program(), executor.plan().at());
  std::vector<Written> out;
  for (const BucketState& bucket : executor.plan().buckets()) {
    const bool sharded = bucket.own_end - bucket.own_begin < bucket.elements;
    // All of an owner's buckets are its own; what is alike on all replicas, the first writes.
    if (bucket.owner >= 0 ? bucket.owner != copy : sharded ? bucket.is_copy : copy != 0) continue;
    for (const BucketPart& part : parts_of(executor, bucket)) {
      for (const WeightPiece& weight : bucket.pieces) {
        if (!weight.owned) continue;
        Piece piece = piece_of(weight, part, bucket.own_begin, bucket.own_end);
        if (num_elements(piece) == 0) continue;
        const at::Tensor elements = elements_of(weight, part, piece);
        out.push_back({std::move(piece), elements});
      }
    }
  }
  if (has_first_scale_states(executor)) {
    for (const ScaleState& state : scale_states(executor))
      out.push_back({whole_tensor(state.name, DType::kFp32, state.shape), state.elements});
  }
  return out;
}

/// Those that the checkpoint has: one of another precision has none, and scales begin as ever.
void load_scale_states(const Checkpoint& checkpoint, RankExecutor& executor) {
  for (const ScaleState& state : scale_states(executor)) {
    if (!checkpoint.tensors().contains(state.name)) continue;
    const at::Tensor elements = at::empty(state.shape, at::TensorOptions(at::kFloat));
    checkpoint.read(whole_tensor(state.name, DType::kFp32, state.shape),
                    {static_cast<std::byte*>(elements.mutable_data_ptr()), elements.nbytes()});
    state.elements.copy_(elements);
  }
}

/// Reads all elements of weights that lie in `part`.
void fill(const BucketPart& part, const BucketState& bucket, const ReadPiece& read) {
  const DType type = stored_type(part.tensor);
  const auto options = at::TensorOptions(type == DType::kFp64 ? at::kDouble : at::kFloat);
  for (const WeightPiece& weight : bucket.pieces) {
    Piece piece = piece_of(weight, part, part.begin, part.begin + part.tensor.numel());
    if (num_elements(piece) == 0) continue;
    piece.dtype = type;
    const at::Tensor elements = at::empty({num_elements(piece)}, options);
    read(piece, {static_cast<std::byte*>(elements.mutable_data_ptr()), elements.nbytes()});
    elements_of(weight, part, piece).copy_(elements);
  }
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

/// Moments that an open checkpoint lacks are those of another optimizer, which an earlier version
/// has not recorded.
void blame_optimizer(const Study& study, const std::function<void()>& load) {
  try {
    load();
  } catch (const ConfigError& error) {
    fail_at(study, "training.optimizer",
            std::string(error.what()) +
                "; the run had another optimizer: say that, or begin a new run with another --out");
  }
}

}  // namespace

void save_checkpoint(const std::string& folder, RankTrainer& trainer, const std::string& digest,
                     std::int64_t rank, std::int64_t ranks, Rendezvous& rendezvous) {
  const std::int64_t step = trainer.steps_done();
  const std::string name = "checkpoint/" + std::to_string(step);
  if (rank == 0) begin_checkpoint(folder, step);
  rendezvous.barrier(name + "/begun", ranks);
  std::vector<Written> written = pieces_to_write(trainer);
  std::string shard;
  if (!written.empty()) {
    std::vector<Piece> pieces;
    std::map<std::string, at::Tensor> elements;
    for (const Written& one : written) {
      pieces.push_back(one.piece);
      elements.emplace(to_string(one.piece), one.elements);
    }
    ShardWriter writer(folder, step, static_cast<std::int32_t>(rank), std::move(pieces));
    while (const Piece* piece = writer.next()) {
      writer.append(bytes_of(elements.at(to_string(*piece)).cpu().contiguous()));
    }
    shard = writer.finish();
  }
  const std::vector<std::string> all = rendezvous.all_gather(name + "/shard", rank, ranks, shard);
  if (rank == 0) {
    std::vector<std::string> shards;
    for (const std::string& text : all) {
      if (!text.empty()) shards.push_back(text);
    }
    CheckpointInfo info;
    info.step = step;
    info.samples = step * trainer.study().training.global_batch;
    info.program_digest = digest;
    info.study = "study.resolved.yaml";
    info.seed = static_cast<std::uint64_t>(trainer.study().training.seed);
    TrainingState state{trainer.updates_done(), trainer.loss_scale().value(),
                        trainer.loss_scale().good_steps()};
    state.run = run_record(trainer.study());
    info.state = training_state_json(state);
    commit_checkpoint(folder, info, shards, static_cast<int>(trainer.study().checkpoint.keep));
  }
  rendezvous.barrier(name + "/done", ranks);
}

void load_weights(const ReadPiece& read, RankTrainer& trainer) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  RankExecutor& executor = trainer.executor();
  for (const BucketState& bucket : executor.plan().buckets()) {
    fill({"", executor.values().tensor(bucket.parameter, 0), bucket.held_begin}, bucket, read);
    if (bucket.master != kNoIndex) {
      fill({"", executor.values().tensor(bucket.master, 0), bucket.own_begin}, bucket, read);
    }
  }
}

void load_checkpoint(const Checkpoint& checkpoint, RankTrainer& trainer) {
  const CheckpointInfo& info = checkpoint.info();
  const TrainingState state = read_training_state(info, checkpoint.path() + "/" + kIndexName,
                                                  {info.step, trainer.loss_scale().value(), 0});
  check_same_run(trainer.study(), state.run, checkpoint.path());
  const auto read = [&](const Piece& piece, std::span<std::byte> out) {
    checkpoint.read(piece, out);
  };
  RankExecutor& executor = trainer.executor();
  load_weights(read, trainer);  // RunFolder::prepare() has seen that they are the model's
  blame_optimizer(trainer.study(), [&] {
    for (const BucketState& bucket : executor.plan().buckets()) {
      for (const BucketPart& part : parts_of(executor, bucket)) {
        if (!part.prefix.empty()) fill(part, bucket, read);
      }
    }
  });
  load_scale_states(checkpoint, executor);
  trainer.resume_at(info.step, state.updates);
  if (trainer.loss_scale().dynamic())
    trainer.loss_scale().resume(state.loss_scale, state.good_steps);
}

}  // namespace trainyard
