// The Program: what compile() produces and every executor runs. For every rank class the exact
// stream of kernels, collectives, sends, receives and buffer lifetimes of a training step.
//
// It says everything that a machine needs and nothing that only a simulator understands. README.md
// in this folder has the rules (issue, start, static memory, segments, steps), one worked example,
// and how each hard case is written. The text form (program_text.h) prints and parses back.
#pragma once

#include <array>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/indexed.h"
#include "engine/graph/graph.h"
#include "engine/plan/documents.h"
#include "engine/sharding/device_mesh.h"
#include "engine/sharding/spec_table.h"

namespace trainyard {

// Each an index into the Program's list of these.
using ValueId = Index<struct Value>;
using PoolId = Index<struct Pool>;
using GroupId = Index<struct Group, std::int16_t>;
using TransferId = Index<struct Transfer, std::int16_t>;
using AttrId = Index<OpAttrs>;
using SegmentId = Index<struct Segment>;
using Microbatch = std::int32_t;

enum class Scope : std::uint8_t { kPersistent, kStep, kMicrobatch, kLocal };
enum class Space : std::uint8_t { kDevice, kHost, kNvme };

/// What the memory report counts a value as.
enum class MemoryClass : std::uint8_t {
  kParameter,
  kGradient,
  kOptimizerState,
  kActivation,
  kBuffer
};

/// No list uses more than 8 of them but one of a V that offloads: CUDA devices have 8 hardware
/// queues by default, and streams that share one wait for each other.
enum class StreamId : std::uint8_t {
  kMain,     // compute, and every free
  kTp,       // tensor-parallel collectives
  kFwd,      // to the next rank: activations, in a V gradients too
  kBwd,      // to the previous rank: gradients, in a V activations too
  kDp,       // gradient buckets, parameter gathers
  kNorm,     // gradient norm, loss, tied weights
  kFwdIn,    // from the previous rank: a send does not queue behind a receive
  kBwdIn,    // from the next rank
  kD2h,      // copies from the device to its host
  kH2d,      // and back
  kHost,     // what the host computes itself: updates of what lies in its memory
  kNvmeOut,  // copies from the host's memory to its NVMe drives
  kNvmeIn    // and back
};
inline constexpr int kNumStreams = 13;
inline constexpr Keys<StreamId> kAllStreams{StreamId{0}, StreamId{kNumStreams}};
using StreamSet = std::uint16_t;  // a bit per stream
static_assert(kNumStreams <= 16);
constexpr StreamSet stream_bit(StreamId stream) {
  return static_cast<StreamSet>(1U << static_cast<unsigned>(stream));
}

/// Whether kernels run on it: the others move data.
constexpr bool is_compute(StreamId stream) {
  return stream == StreamId::kMain || stream == StreamId::kHost;
}

/// The stream that stands for both ends of a transfer: that of the sender.
constexpr StreamId transfer_stream(StreamId stream) {
  if (stream == StreamId::kFwdIn) return StreamId::kFwd;
  return stream == StreamId::kBwdIn ? StreamId::kBwd : stream;
}

/// Extent of a tensor's dim. A symbol marks extents known only at run time (routed tokens): time
/// uses `expected`, memory uses `bound`.
struct Dim {
  std::int64_t expected = 0;
  std::int64_t bound = 0;
  std::int16_t symbol = -1;
  friend bool operator==(const Dim&, const Dim&) = default;
};
using Dims = boost::container::small_vector<Dim, 4>;  // at most kMostDims

/// Storage inside another value: in place, a bucket view, a rank's shard of a bucket.
struct Alias {
  ValueId in = kNoIndex;
  std::int64_t offset = 0;       // elements
  GroupId own_shard = kNoIndex;  // offset is this rank's place in the group times the size
  friend bool operator==(const Alias&, const Alias&) = default;
};

struct Value {
  std::string name;
  Dims dims;  // local shape
  DType dtype = DType::kBf16;
  SpecId spec;  // in Program::specs; kNoIndex: whole on every rank
  Scope scope = Scope::kLocal;
  Space space = Space::kDevice;
  MemoryClass memory = MemoryClass::kActivation;
  std::optional<Alias> alias;
  PoolId pool = kNoIndex;   // fixed slots; kNoIndex: arena
  std::int16_t owner = -1;  // place in the group Program::owners of the ranks that alone have it
                            // (owners.h); -1: all do
  friend bool operator==(const Value&, const Value&) = default;
};

struct Pool {
  std::string name;
  int slots = 0;  // each as large as the largest value of the pool
  Space space = Space::kDevice;
  Bytes buffer = 0;  // of a persistent buffer that the slots lie in, which takes so much whatever
                     // they need; 0: none
  friend bool operator==(const Pool&, const Pool&) = default;
};

/// Ranks that communicate: those that differ only along `axes`, in the order of that list.
/// `members` keeps only the listed pipeline ranks (stages that share a weight).
struct Group {
  std::string name;
  Axes axes;
  std::vector<std::int32_t> members;
  friend bool operator==(const Group&, const Group&) = default;
};

/// A transfer's peer: the rank whose coordinate on `axis` differs by `offset`, cyclically. Between
/// pipeline ranks with unlike numbers of replicas, `pairs` says which replica meets which: (own,
/// peer's), ascending, each of them once; only these transfer.
struct Transfer {
  AxisId axis = kNoAxis;
  std::int32_t offset = 1;
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs = {};
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

struct Operand {
  ValueId value = kNoIndex;
  std::uint8_t slot = 0;  // which of the call's microbatches
  friend bool operator==(const Operand&, const Operand&) = default;
};
using Operands = boost::container::small_vector<Operand, 3>;

struct ProgramOp {
  OpKind kind = OpKind::kAdd;
  OpPart part = OpPart::kForward;
  StreamId stream = StreamId::kMain;
  bool host_sync = false;          // the host waits for the end
  GroupId group = kNoIndex;        // collectives
  TransferId transfer = kNoIndex;  // sends and receives
  AttrId attrs{0};
  PathId module{0};
  Operands reads;
  Operands writes;
  Operands accumulates;  // read and written
  boost::container::small_vector<std::uint32_t, 1>
      after;                     // ops of this segment that must have ended
  std::optional<Operand> guard;  // device flag; false: the op does nothing
  friend bool operator==(const ProgramOp&, const ProgramOp&) = default;
};

enum class Phase : std::uint8_t {
  kForward,         // F
  kBackward,        // B: both halves
  kBackwardInput,   // I
  kBackwardWeight,  // W
  kRecompute,       // R
  kPrepare,         // P: once, before a step
  kUpdate,          // U: once, after a step
  kCommunicate,     // sends, receives, buckets
  kCorrect  // V: called only where a validation of the step before has failed (post_validation.h)
};
char letter(Phase phase);

/// Ops of one (stage, phase), as a function of `slots` microbatches (0: once per step).
struct Segment {
  std::string name;  // "3B"; calls print it with their microbatch, "3B7"
  std::int32_t stage = 0;
  Phase phase = Phase::kForward;
  std::uint8_t slots = 1;
  std::vector<ProgramOp> ops;
  friend bool operator==(const Segment&, const Segment&) = default;
};

struct CallRef {
  std::uint32_t call = 0;  // index into the class's list
  friend bool operator==(const CallRef&, const CallRef&) = default;
};

/// A segment run for its microbatches (the field's word: action).
struct Call {
  SegmentId segment = kNoIndex;
  std::array<Microbatch, 2> mb = {-1, -1};
  std::vector<std::pair<std::int16_t, std::int64_t>> dims;  // symbol -> extent of this call
  std::vector<CallRef> after;  // earlier calls of the list that must have ended
  std::vector<std::pair<std::uint32_t, SegmentId>> inside;  // issued right before op k of this call
  friend bool operator==(const Call&, const Call&) = default;
};

struct RankSet {
  Coordinate at;  // per axis of the mesh; -1: all of that axis, or of it what `replicas` says
  std::vector<std::int32_t> replicas =
      {};  // numbers of replicas, ascending; empty: the mesh has no unlike ones
  friend bool operator==(const RankSet&, const RankSet&) = default;
};

/// Ranks that run the same list. One list per class, in the order in which the host issues.
struct RankClass {
  RankSet ranks;
  std::vector<Call> calls;
  friend bool operator==(const RankClass&, const RankClass&) = default;
};

/// Which rank holds which coordinates: rank = sum of coordinate * stride; of a mesh with an unlike
/// axis, a table. Not part of the digest. rank_places.h reads it.
struct Placement {
  boost::container::static_vector<std::int64_t, kMostAxes> stride;  // per axis of the mesh
  std::vector<std::int64_t> ranks = {};   // of each rank of the mesh, in its order; empty: strides
  std::vector<std::int64_t> places = {};  // and the other way round: rank -> rank of the mesh
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// What attention that stays inside documents is bound to: each call to the documents of its
/// microbatch's samples, on each replica. Not part of the digest. attended_pairs.h counts by it.
struct DocumentDraws {
  DocumentConfig config;
  std::int64_t length = 0;               // tokens of a sample
  std::int64_t replicas = 1;             // that have samples of their own; unlike ones share them
  std::int64_t per_replica = 0;          // samples of a step
  std::vector<std::int64_t> sizes = {};  // a replica's samples of each microbatch, or of all
  std::int64_t samples = 0;              // config.of_tokens: of a step, of all replicas
  /// The first sample of a microbatch in step 0.
  std::int64_t first_sample(Microbatch mb, std::int64_t replica) const;
  std::int64_t size_of(Microbatch mb) const { return sizes[sizes.size() == 1 ? 0 : mb]; }
  friend bool operator==(const DocumentDraws&, const DocumentDraws&) = default;
};

struct Program {
  // Compiled once, in program.cpp: hundreds of files copy, move and destroy it.
  Program();
  Program(const Program&);
  Program(Program&&) noexcept;
  Program& operator=(const Program&);
  Program& operator=(Program&&) noexcept;
  ~Program();

  DeviceMesh mesh;  // its stage axis tells pipeline ranks apart; without one there is one list
  Placement placement;
  Indexed<AttrId, OpAttrs> attrs = {OpAttrs{}};  // [0]: nothing said
  Indexed<PathId, std::string> modules = {""};   // paths; [0]: no module
  SpecTable specs;                               // of values; none is whole on every rank
  Indexed<ValueId, Value> values;
  Indexed<PoolId, Pool> pools;
  Indexed<GroupId, Group> groups;
  GroupId owners = kNoIndex;  // whose members own values; kNoIndex: no value has an owner
  Indexed<TransferId, Transfer> transfers;
  Indexed<SegmentId, Segment> segments;
  std::vector<RankClass> body;  // one step; consecutive steps may overlap
  int num_microbatches = 0;
  std::optional<DocumentDraws> documents = {};  // of the samples; none: they are one piece each
  friend bool operator==(const Program&, const Program&);
};

std::int64_t num_elements(const Dims& dims);  // expected
Bytes size_in_bytes(const Value& value);      // of the bound
const Value& moved_value(const Program& program,
                         const ProgramOp& op);                // that a transfer sends or receives
ValueId storage_root(const Program& program, ValueId value);  // follows aliases

/// The spec of `value`, and the number of another one that a value is to have.
TensorSpec spec_of(const Program& program, const Value& value);
SpecId add_spec(Program& program, const TensorSpec& spec);

/// Drops attributes, modules and specs that nothing uses and sorts the rest by first use: then two
/// Programs that do the same are equal, and a Program equals what its text parses to.
void renumber_tables(Program& program);

/// The ranks with this coordinate on the stage axis, whatever the others.
RankSet ranks_at(const DeviceMesh& mesh, std::int32_t pipeline_rank);
/// Those of `ranks` that are in it.
bool is_in(const RankSet& ranks, const DeviceMesh& mesh, const Coordinate& at);
std::int32_t pipeline_rank_of(const RankSet& ranks, const DeviceMesh& mesh);
/// How many ranks are in it.
std::int64_t num_ranks(const RankSet& ranks, const DeviceMesh& mesh);
/// "class pp:1", "class pp:1 dp:0-2,4", the class's line and name; of a mesh without a stage axis
/// "class".
std::string class_name(const DeviceMesh& mesh, const RankSet& ranks);

/// Ascending numbers as runs: "0-2,4".
std::string runs_text(const std::vector<std::int64_t>& numbers);

}  // namespace trainyard
