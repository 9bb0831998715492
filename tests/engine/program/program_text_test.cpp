// The Program's text form: it reads back into an equal Program, its digest covers what it should,
// and a text that is not of the form is refused at its line and column, whatever its bytes.
#include "engine/program/program_text.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <random>

#include "engine/base/error.h"
#include "engine/program/verify.h"
#include "tests/support/example_program.h"
#include "tests/support/studies.h"

namespace trainyard {

namespace {

/// The message with which `text` is refused.
std::string error_of(const std::string& text) {
  try {
    parse_program(text, "p.txt");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

/// A study with two pipeline stages on one node of 8 devices; later keys override earlier ones.
std::string study(const std::string& model, const std::string& parallel, const std::string& rest) {
  return "model: {" + model + "}\ncluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {" +
         parallel + "}\ntraining: {global_batch: 16, microbatch: 1}\n" + rest;
}

const std::string kGpt = "family: gpt, layers: 4, hidden: 64, heads: 4, vocab: 512, seq_len: 32";
const std::string kLlama =
    "family: llama, layers: 4, hidden: 64, heads: 4, vocab: 512, seq_len: 32";
const std::string kBert = "family: bert, layers: 4, hidden: 64, heads: 4, vocab: 512, seq_len: 32";
const std::string kT5 = "family: t5, layers: 4, hidden: 64, heads: 4, vocab: 512, seq_len: 32";
const std::string kMesh = "tensor: 2, pipeline: 2, data: 2";

const std::vector<std::string>& compiled_studies() {
  static const std::vector<std::string> kStudies = {
      study(kGpt, kMesh, ""),
      study(kGpt, kMesh, "schedule: gpipe\nrecompute: full\n"),
      study(kGpt, kMesh + ", sequence_parallel: true, zero: 1", "recompute: selective\n"),
      study(kGpt, "tensor: 1, pipeline: 2, data: 4, virtual_stages: 2, zero: 1",
            "schedule: interleaved\n"),
      study(kLlama, kMesh + ", sequence_parallel: true", "framework: megatron-lm\n"),
      study(kLlama, "tensor: 4, pipeline: 1, data: 2", "recompute: full\n"),
      study(kBert, kMesh, "schedule: gpipe\n"),
      study(kT5, kMesh, ""),
      study(kT5, "tensor: 1, pipeline: 4, data: 2", "schedule: gpipe\n"),
  };
  return kStudies;
}

Program compiled(const std::string& yaml, const std::vector<std::string>& sets = {}) {
  return compiled_program(prepare_text(yaml, sets));
}

}  // namespace

TEST_CASE("the worked example reads, can run, and prints as it was written") {
  const Program program = parse_program(kExampleProgram, "example");
  CHECK_FALSE(find_violation(program));
  CHECK(to_text(program) == kExampleProgram);

  CHECK(program.mesh.size == std::array<std::int32_t, 5>{2, 1, 1, 1, 2});
  CHECK(program.placement == make_placement(program.mesh, "DPT"));
  REQUIRE(program.groups.size() == 2);
  CHECK(program.groups[GroupId(1)] == Group{"all", {Axis::kPp, Axis::kTp}, {}});
  CHECK(program.transfers == std::vector<Transfer>{{Axis::kPp, 1}, {Axis::kPp, -1}});
  CHECK(program.pools[PoolId(1)] == Pool{"rb", 1, Space::kDevice});
  const Value& y0 = program.values[ValueId(17)];
  CHECK(y0.name == "y0");
  CHECK(y0.dims == Dims{{16, 16, -1}, {4, 4, -1}});
  CHECK(y0.alias == Alias{ValueId(16), 0, std::nullopt});
  CHECK(y0.scope == Scope::kMicrobatch);
  CHECK(program.values[ValueId(0)].spec[Axis::kTp] == shard(0));
  const Segment& forward = program.segments[SegmentId(2)];
  CHECK(forward.name == "0F");
  CHECK(forward.slots == 1);
  REQUIRE(forward.ops.size() == 5);
  ProgramOp reduce;
  reduce.kind = OpKind::kAllReduce;
  reduce.stream = StreamId::kTp;
  reduce.group = GroupId(0);
  reduce.reads = {{ValueId(16), 0}};
  reduce.writes = {{ValueId(17), 0}};
  CHECK(forward.ops[4] == reduce);
  REQUIRE(program.body[0].calls.size() == 13);
  CHECK(program.body[0].calls[3].segment == SegmentId(2));
  CHECK(program.body[0].calls[3].mb == std::array<Microbatch, 2>{1, -1});
}

TEST_CASE("everything that a Program can say survives the text") {
  Program p;
  p.mesh.size = {3, 1, 1, 2, 1};
  p.placement = make_placement(p.mesh, "EP");
  p.num_microbatches = 11;
  OpAttrs attention;
  attention.heads = attention.kv_heads = 2147483647;
  attention.packed = attention.causal = attention.has_mask = attention.has_bias = true;
  attention.rate = 0.1F;
  attention.scale = 0.30000001F;
  OpAttrs other;
  other.head_dim = 1;
  other.share = 1.0F / 3;
  other.dim = 4;
  other.dims = {3, 0, 7};
  other.begin = 12345678901;
  other.partial_gradient = other.tanh_gelu = other.copies = true;
  p.attrs = {OpAttrs{}, attention, other};
  p.modules = {"", "a.b", "c"};
  p.pools = {{"odd:name", 7, Space::kHost}};
  p.groups = {{"tied", {Axis::kPp}, {0, 2}}, {"mixed", {Axis::kEp, Axis::kPp}, {}}};
  p.transfers = {{Axis::kPp, -2}, {Axis::kEp, 1}};
  Value routed;
  routed.name = "x'+1@2:y";
  routed.dims = {{96, 128, 3}, {0, 0, -1}, {5, 9, -1}};
  routed.dtype = DType::kFp8;
  routed.spec[Axis::kDp] = shard(1);
  routed.spec[Axis::kEp] = partial();
  routed.scope = Scope::kMicrobatch;
  routed.space = Space::kHost;
  routed.pool = PoolId(0);
  Value own = routed;
  own.name = "own";
  own.alias = Alias{ValueId(0), 12345678901, Axis::kDp};
  Value flag;
  flag.name = "flag";
  flag.memory = MemoryClass::kOptimizerState;
  flag.dims.assign(kMostDims, Dim{1, 2, -1});
  p.values = {routed, own, flag};
  ProgramOp op;
  op.kind = OpKind::kAttention;
  op.part = OpPart::kWeightGrad;
  op.stream = StreamId::kNorm;
  op.attrs = AttrId(1);
  op.module = PathId(1);
  op.reads = {{ValueId(0), 1}, {ValueId(2), 0}};
  op.accumulates = {{ValueId(1), 0}};
  op.guard = Operand{ValueId(2), 0};
  op.host_sync = true;
  ProgramOp plain;  // back to no module, and no operand at all
  plain.attrs = AttrId(2);
  ProgramOp later = plain;
  later.module = PathId(2);
  later.after = {0, 1};
  later.writes = {{ValueId(2), 0}};
  ProgramOp free;
  free.kind = OpKind::kFree;
  free.reads = {{ValueId(2), 0}};
  p.segments = {{"0F+7B", 0, Phase::kRecompute, 2, {op, plain, free, later}},
                {"7X.10", 7, Phase::kCommunicate, 0, {}},
                {"1W", 1, Phase::kBackwardWeight, 1, {}}};
  Call pair;
  pair.segment = SegmentId(0);
  pair.mb = {3, 10};
  pair.dims = {{3, 96}, {0, 1}};
  Call second;
  second.segment = SegmentId(2);
  second.mb = {7, -1};
  second.after = {{0}, {0}};
  second.inside = {{0, SegmentId(1)}, {4, SegmentId(1)}};
  p.body = {{RankSet{{0, -1, -1, 1, -1}}, {pair, second}}, {RankSet{}, {}}};

  const Program read = parse_program(to_text(p), "p.txt");
  CHECK(read == p);
  CHECK(to_text(read) == to_text(p));
  CHECK_THAT(to_text(p), Catch::Contains("\n  0F+7B3,10(3=96,0=1) 1W7^0^0{@0:7X.10;@4:7X.10}\n"));
  CHECK_THAT(to_text(p),
             Catch::Contains("\n  norm attention_dw{heads=2147483647 kv_heads=2147483647 packed "
                             "causal mask bias rate=0.1 scale=0.3} x'+1@2:y[n] flag +> own[m] "
                             "guard flag host_sync\n"));
  CHECK_THAT(to_text(p), Catch::Contains("add{head_dim=1 tanh share=0.33333334 dim=4 partial "
                                         "dims=3,0,7 begin=12345678901 copies}\n"));
}

TEST_CASE("a compiled study's Program equals what its text parses to") {
  for (const std::string& yaml : compiled_studies()) {
    CAPTURE(yaml);
    const Program program = compiled(yaml);
    const std::string text = to_text(program);
    const Program read = parse_program(text, "program.txt");
    CHECK(read == program);
    CHECK(to_text(read) == text);
    CHECK(program_digest(read) == program_digest(program));
    CHECK_FALSE(find_violation(read));
  }
}

TEST_CASE("the text keeps up with a Program of tens of thousands of ops") {
  const Program program = compiled(study(
      "family: gpt, layers: 96, hidden: 1024, heads: 16, vocab: 51200, seq_len: 128", kMesh, ""));
  const std::string text = to_text(program);
  CHECK(text.size() > 1'000'000);
  const auto begin = std::chrono::steady_clock::now();
  const Program read = parse_program(text, "program.txt");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(read == program);
  CHECK(took.count() < 2.0);  // 0.02 s in a release build; sanitizers are slow
}

TEST_CASE("tables are numbered by first use, so that order and leftovers in them do not matter") {
  const Program program = compiled(compiled_studies()[0]);
  Program shuffled = program;
  const auto attrs = AttrId(program.attrs.size());
  std::reverse(shuffled.attrs.begin(), shuffled.attrs.end());
  shuffled.modules.insert(shuffled.modules.begin(), "not used");
  for (Segment& segment : shuffled.segments) {
    for (ProgramOp& op : segment.ops) {
      op.attrs = AttrId(attrs - 1 - op.attrs.number());
      ++op.module;
    }
  }
  CHECK_FALSE(shuffled == program);
  renumber_tables(shuffled);
  CHECK(shuffled == program);
}

TEST_CASE("the digest says what a step does, not where or with which numbers") {
  const std::string base = study(kGpt, kMesh, "");
  const std::string digest = program_digest(compiled(base));
  CHECK(digest.size() == 64);
  for (const char* same : {"parallel.placement=TPD", "parallel.placement=PDT", "training.seed=7",
                           "training.steps=3", "cluster.nodes=2", "training.clip_norm=0"}) {
    CAPTURE(same);
    CHECK(program_digest(compiled(base, {same})) == digest);
  }
  for (const char* other :
       {"schedule=gpipe", "framework=megatron-lm", "training.kernels=cpu", "training.microbatch=2",
        "training.precision=fp16", "training.bucket_elements=10e3",
        "training.flash_attention=false", "training.dropout=0", "training.optimizer=sgd",
        "parallel.zero=1", "parallel.sequence_parallel=true", "recompute=full", "model.hidden=128",
        "parallel.scatter_gather=false"}) {
    CAPTURE(other);
    CHECK(program_digest(compiled(base, {other})) != digest);
  }
  CHECK(to_text(compiled(base, {"parallel.placement=TPD"})) != to_text(compiled(base)));
}

TEST_CASE("a text that is not of the form is refused at its line and column") {
  struct Case {
    const char* from;
    const char* to;
    const char* error;
  };
  const std::vector<Case> cases = {
      {"program 1", "program 2", "p.txt:1:9: program: expected '1'; found '2'"},
      {"program 1\n", "", "p.txt:1:1: expected a line that starts with 'program'"},
      {"mesh pp:2 dp:1 cp:1", "mesh pp:2 dp:1", "p.txt:2:16: mesh: expected 'cp'; found 'ep:1'"},
      {"mesh pp:2", "mesh pp:0",
       "p.txt:2:9: mesh: a number of ranks has to be from 1 to 1048576, not 0"},
      {"dp:1 cp:1 ep:1 tp:2", "dp:1024 cp:1 ep:1 tp:1024",
       "p.txt:2:36: mesh: more than 1048576 ranks"},
      {"microbatches 2", "microbatches",
       "p.txt:3:13: microbatches: expected a space; the line ends"},
      {"microbatches 2\n", "", "p.txt:3:1: expected a line that starts with 'microbatches'"},
      {"microbatches 2", "microbatches 2 ",
       "p.txt:3:15: microbatches: expected the line to end; found a space"},
      {"group all", "group tp", "p.txt:5:7: group: a second group called 'tp'"},
      {"all[pp,tp]", "all[pp,xp]",
       "p.txt:5:14: group all: 'xp' is not an axis; there are pp, dp, cp, ep, tp"},
      {"all[pp,tp]", "all[pp,pp]", "p.txt:5:14: group all: an axis twice"},
      {"all[pp,tp]", "all[pp]{1,0}",
       "p.txt:5:17: group all: the next coordinate along pp has to be from 2 to 1, not 0"},
      {"transfer 1 pp-1", "transfer 2 pp-1",
       "p.txt:7:10: transfer: the number of this transfer has to be from 1 to 1, not 2"},
      {"transfer 1 pp-1", "transfer 1 pp1",
       "p.txt:7:12: transfer: 'pp1' is not an axis; there are pp, dp, cp, ep, tp"},
      {"pool rf:2", "pool rf", "p.txt:8:6: pool: expected NAME:SLOTS"},
      {"pool rf:2", "pool rf:many", "p.txt:8:9: pool: expected its number of slots; found 'many'"},
      {"value w1 fp32", "value w1 fp31", "p.txt:10:10: value w1: no type is called 'fp31'"},
      {"value w1 fp32[8,4]", "value w1 fp32[8,4,1,1,1,1,1,1,1]",
       "p.txt:10:31: value w1: more than 8 dims"},
      {"value w1 fp32[8,4]", "value w1 fp32[99999999,99999999]",
       "p.txt:10:33: value w1: more than 2^50 elements"},
      {"value w1 fp32[8,4]", "value w1 fp32[8~7?0,4]",
       "p.txt:10:17: value w1: the bound of an extent has to be from 8 to 1125899906842624, not 7"},
      {"w1 fp32[8,4] persistent", "w1 fp32[8,4] forever",
       "p.txt:10:20: value w1: 'forever' is not a scope; there are persistent, step, mb and local"},
      {"parameter tp:S0", "parameter tp:S5",
       "p.txt:10:45: value w1: a dim has to be from 0 to 4, not 5"},
      {"parameter tp:S0", "parameter tp:S0 tp:S1",
       "p.txt:10:47: value w1: expected 'host'; found 'tp:S1'"},
      {"value w2 fp32", "value w1 fp32", "p.txt:11:7: value: a second value called 'w1'"},
      {"value w1 fp32", "value guard fp32",
       "p.txt:10:7: value guard: the text form needs this name for itself"},
      {"in:n0+0", "in:N1+0", "p.txt:20:35: value N0: no value above is called 'N1'"},
      {"in:n0+0", "in:N0+0", "p.txt:20:35: value N0: no value above is called 'N0'"},
      {"in:n0+0", "in:n0", "p.txt:20:35: value N0: expected in:VALUE+OFFSET"},
      {"pool:rb", "pool:rg", "p.txt:28:37: value dy0: no pool is called 'rg'"},
      {"segment 1ZERO()", "segment 0ZERO()",
       "p.txt:41:9: segment: a second segment called '0ZERO'"},
      {"segment 1ZERO()", "segment 1ZERO(k)",
       "p.txt:41:14: segment 1ZERO: expected (), (m) or (m,n)"},
      {"segment 0F(m)", "segment 0F7(m)",
       "p.txt:43:9: segment 0F7: the name of a segment that takes a microbatch cannot end in a "
       "digit"},
      {"stage:0 F", "stage:0 Q", "p.txt:43:23: segment 0F: a phase is one letter of FBIWRPUCV"},
      {"main load", "mian load",
       "p.txt:44:3: segment 0F: 'mian' is not a stream; there are main, tp, fwd, bwd, dp, norm, "
       "fwd_in, bwd_in, d2h and h2d"},
      {"main load", "main laod", "p.txt:44:8: segment 0F: no op is called 'laod'"},
      {"main load", "main load:tp", "p.txt:44:13: segment 0F: only communication has a peer"},
      {"main gelu h0", "main gelu{slow} h0",
       "p.txt:46:13: segment 0F: no attribute is called 'slow'"},
      {"main gelu h0", "main gelu{rate=nan} h0",
       "p.txt:46:18: segment 0F: expected a number; found 'nan}'"},
      {"main gelu h0", "main gelu{dim=200} h0",
       "p.txt:46:17: segment 0F: a number has to be from -1 to 127, not 200"},
      {"main gelu h0", "main gelu{causal causal} h0", "p.txt:46:20: segment 0F: 'causal' twice"},
      {"main gelu h0", "main gelu{rate=0} h0", "p.txt:46:13: segment 0F: 'rate' is so unless said"},
      {"gelu h0[m] ->", "gelu z0[m] ->", "p.txt:46:13: segment 0F: no value is called 'z0'"},
      {"gelu h0[m] ->", "gelu h0 ->",
       "p.txt:46:13: segment 0F: 'h0' is of a microbatch; write h0[m]"},
      {"x0[m] w1 ->", "x0[m] w1[m] ->",
       "p.txt:45:21: segment 0F: 'w1' is not of a microbatch; leave out its slot"},
      {"x0[m] w1 -> h0[m]", "x0[m] w1 ->", "p.txt:45:26: segment 0F: expected an operand"},
      {"x0[m] w1 -> h0[m]", "x0[m] +> w1 -> h0[m]",
       "p.txt:45:27: segment 0F: '->' stands too late in the line"},
      {"all_reduce:tp p0", "all_reduce:dp p0", "p.txt:48:17: segment 0F: no group is called 'dp'"},
      {"send:0", "send:2", "p.txt:75:12: segment 0SEND_F: there is no transfer 2"},
      {"class pp:1", "class pp:2",
       "p.txt:100:10: class: a coordinate has to be from 0 to 1, not 2"},
      {"0F0 0SEND", "0G0 0SEND", "p.txt:99:9: calls: no segment is called '0G0'"},
      {"0F0 0SEND", "0F 0SEND", "p.txt:99:9: calls: '0F' takes a microbatch"},
      {"0F0 0SEND", "0F2 0SEND", "p.txt:99:11: calls: a microbatch has to be from 0 to 1, not 2"},
      {"0B0 ", "0B0{@4:0NROM} ", "p.txt:99:51: calls: no segment is called '0NROM'"},
      {"0B0 ", "0B0^ ", "p.txt:99:48: calls: expected the number of a call; found a space"},
      {"placement pp:2", "placement pp:-2",
       "p.txt:102:14: placement: a number of ranks has to be from 0 to 1048576, not -2"},
      {"tp:1\n", "tp:1", "p.txt:102:35: the text breaks off: its last line has no end"},
      {"placement pp:2 dp:4 cp:2 ep:2 tp:1\n", "",
       "p.txt:102:1: the text breaks off before its placement"},
      {"pool rf:2\n", "value v fp32[1] step buffer\npool rf:2\n",
       "p.txt:9:1: 'pool' cannot stand after 'value'"},
      {"pool rf:2\n", "pond rf:2\n", "p.txt:8:1: no line starts with 'pond'"},
      {"value w1", "value w\x01", "p.txt:10:8: value: a control character in the name of a value"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.from, c.to);
    CHECK(error_of(with(kExampleProgram, c.from, c.to)) == c.error);
  }
  CHECK(error_of("") == "p.txt:1:1: the text breaks off before its placement");
}

TEST_CASE("a text cut off anywhere is refused") {
  for (std::size_t size = 0; size < kExampleProgram.size(); ++size) {
    CAPTURE(size);
    CHECK(error_of(kExampleProgram.substr(0, size)) != "no error");
  }
}

namespace {

/// Damages a text at one or two places: bytes, pieces of the form, lines moved, doubled, left out.
class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  std::string damage(std::string text) {
    for (std::size_t times = 1 + below(2); times > 0 && !text.empty(); --times) damage_once(text);
    return text;
  }

 private:
  std::size_t below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
  }

  void damage_once(std::string& text) {
    static const std::vector<std::string> kPieces = {
        " ",     "\n",         "[m]",         "[n]",        " -> ",
        " +> ",  " after:0",   " guard loss", " host_sync", "{",
        "}",     "@",          ":",           "+",          "-",
        "^0",    "{@0:0NORM}", "0",           "2147483648", "9223372036854775808",
        "1e99",  "\xff",       "\x01",        "()",         "(m)",
        "(m,n)", ",",          " pool:rf",    " in:n0+1",   " host",
        "mb",    "local",      "persistent",  "tp",         "pp",
        "norm"};
    const std::size_t at = below(text.size());
    const std::size_t line =
        text.rfind('\n', at) == std::string::npos ? 0 : text.rfind('\n', at) + 1;
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    switch (below(7)) {
      case 0: text[at] = static_cast<char>(below(256)); break;
      case 1: text.insert(at, kPieces[below(kPieces.size())]); break;
      case 2: text.erase(at, 1 + below(8)); break;
      case 3: text.erase(line, end - line); break;
      case 4: text.insert(line, text.substr(line, end - line)); break;
      case 5: text.resize(at); break;
      default: {  // exchanges a word for another of the text
        const std::size_t from = text.find_first_of(" \n", below(text.size()));
        if (from == std::string::npos || text[at] == ' ') break;
        const std::string word =
            text.substr(from + 1, text.find_first_of(" \n", from + 1) - from - 1);
        const std::size_t until = std::min(text.find_first_of(" \n", at), text.size());
        text.replace(at, until - at, word);
      }
    }
  }

  std::mt19937 random_;
};

}  // namespace

TEST_CASE("2,000 damaged texts are refused or read, and what reads prints and reads again") {
  const std::string small =
      to_text(compiled(study("family: gpt, layers: 2, hidden: 8, heads: 2, vocab: 16, seq_len: 4",
                             kMesh + ", zero: 1", "")));
  Mutator mutator(20240607);
  int read = 0;
  int runs = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string text = mutator.damage(i % 4 == 0 ? small : kExampleProgram);
    CAPTURE(text);
    try {
      const Program program = parse_program(text, "p.txt");
      ++read;
      CHECK(parse_program(to_text(program), "p.txt") == program);
      runs += find_violation(program) ? 0 : 1;
    } catch (const ConfigError&) {
    }
  }
  CHECK(read > 100);  // the damage is not so gross that only the first checks are tested
  CHECK(runs > 20);
  CHECK(runs < read);
}

}  // namespace trainyard
