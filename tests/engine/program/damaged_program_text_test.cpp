// A text that is not a Program's (program_text.h) is refused at its line and column, whatever its
// bytes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "engine/base/error.h"
#include "engine/program/program_text.h"
#include "engine/program/verify.h"
#include "tests/support/example_program.h"
#include "tests/support/studies.h"

namespace trainyard::damaged_program_text_test {

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

}  // namespace

TEST_CASE("a text that is not of the form is refused at its line and column") {
  struct Case {
    const char* from;
    const char* to;
    const char* error;
  };
  const std::vector<Case> cases = {
      {"program 2", "program 3", "p.txt:1:9: program: expected '2'; found '3'"},
      {"program 2", "program 1",
       "p.txt:1:9: program: version 1 has five fixed axes, which do not say what their ranks are "
       "for; this version reads 2: compile the study again"},
      {"program 2\n", "", "p.txt:1:1: expected a line that starts with 'program'"},
      {"tp=2", "tp:2", "p.txt:2:22: mesh: expected '='; the line ends"},
      {"mesh pp=2", "mesh pp=0",
       "p.txt:2:9: mesh: a number of ranks has to be from 1 to 1048576, not 0"},
      {"tp=2", "dp=1024 tp=1024", "p.txt:2:33: mesh: more than 1048576 ranks"},
      {"tp=2", "tp=2:stages", "p.txt:2:18: mesh: axis tp is the second that tells stages apart"},
      {"tp=2", "pp=2", "p.txt:2:18: mesh: 'pp' is a name twice"},
      {"tp=2", "tp=[tp0]", "p.txt:2:22: mesh: 'tp0' is not an axis; there are pp"},
      {"tp=2", "all=[pp] tp=2", "p.txt:2:27: mesh: an axis behind the names of lists of them"},
      {"microbatches 2", "microbatches",
       "p.txt:3:13: microbatches: expected a space; the line ends"},
      {"microbatches 2\n", "", "p.txt:3:1: expected a line that starts with 'microbatches'"},
      {"microbatches 2", "microbatches 2 ",
       "p.txt:3:15: microbatches: expected the line to end; found a space"},
      {"group all", "group tp", "p.txt:5:7: group: a second group called 'tp'"},
      {"all[pp,tp]", "all[pp,xp]",
       "p.txt:5:14: group all: 'xp' is not an axis; there are pp and tp"},
      {"all[pp,tp]", "all[pp,pp]", "p.txt:5:14: group all: an axis twice"},
      {"all[pp,tp]", "all[pp]{1,0}",
       "p.txt:5:17: group all: the next pipeline rank has to be from 2 to 1, not 0"},
      {"group tp[tp]", "group tp[tp] owners\ngroup again[tp] owners",
       "p.txt:5:23: group again: a second group of owners"},
      {"transfer 1 pp-1", "transfer 2 pp-1",
       "p.txt:7:10: transfer: the number of this transfer has to be from 1 to 1, not 2"},
      {"transfer 1 pp-1", "transfer 1 pp1",
       "p.txt:7:12: transfer: 'pp1' is not an axis; there are pp and tp"},
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
      {"parameter [tp, R]", "parameter [xx, R]",
       "p.txt:10:42: value w1: the mesh has no axis 'xx'"},
      {"parameter [tp, R]", "parameter [tp]",
       "p.txt:10:41: value w1: a spec of 1 dims, of a value of 2"},
      {"parameter [tp, R]", "parameter [tp, tp]",
       "p.txt:10:41: value w1: the spec: dim 1 is cut by tp, which cuts another dim"},
      {"parameter [tp, R]", "parameter [pp, R]",
       "p.txt:10:41: value w1: the spec: dim 0 names pp, which tells stages apart"},
      {"parameter [tp, R]", "parameter [tp, R", "p.txt:10:41: value w1: the spec has no end"},
      {"parameter [tp, R]", "parameter [R, R] P(tp", "p.txt:10:41: value w1: the spec has no end"},
      {"parameter [tp, R]", "parameter [tp, R] owner:0",
       "p.txt:10:55: value w1: no group has owners"},
      {"in:n0+0", "in:n0+0 own:dp", "p.txt:20:44: value N0: no group is called 'dp'"},
      {"parameter [tp, R]", "parameter [tp, R] [R, tp]",
       "p.txt:10:49: value w1: expected 'host'; found '[R,'"},
      {"value w2 fp32", "value w1 fp32", "p.txt:11:7: value: a second value called 'w1'"},
      {"value w1 fp32", "value guard fp32",
       "p.txt:10:7: value guard: the text form needs this name for itself"},
      {"in:n0+0", "in:N1+0", "p.txt:20:35: value N0: no value above is called 'N1'"},
      {"in:n0+0", "in:N0+0", "p.txt:20:35: value N0: no value above is called 'N0'"},
      {"in:n0+0", "in:n0", "p.txt:20:35: value N0: expected in:VALUE+OFFSET"},
      {"pool:rb", "pool:rg", "p.txt:28:37: value dy0: no pool is called 'rg'"},
      {"segment 1ZERO()", "segment 0ZERO()",
       "p.txt:42:9: segment: a second segment called '0ZERO'"},
      {"segment 1ZERO()", "segment 1ZERO(k)",
       "p.txt:42:14: segment 1ZERO: expected (), (m) or (m,n)"},
      {"segment 0F(m)", "segment 0F7(m)",
       "p.txt:44:9: segment 0F7: the name of a segment that takes a microbatch cannot end in a "
       "digit"},
      {"stage:0 F", "stage:0 Q", "p.txt:44:23: segment 0F: a phase is one letter of FBIWRPUCV"},
      {"main load", "mian load",
       "p.txt:45:3: segment 0F: 'mian' is not a stream; there are main, tp, fwd, bwd, dp, norm, "
       "fwd_in, bwd_in, d2h, h2d, host, nvme_out and nvme_in"},
      {"main load", "main laod", "p.txt:45:8: segment 0F: no op is called 'laod'"},
      {"main load", "main load:tp", "p.txt:45:13: segment 0F: only communication has a peer"},
      {"main gelu h0", "main gelu{slow} h0",
       "p.txt:47:13: segment 0F: no attribute is called 'slow'"},
      {"main gelu h0", "main gelu{rate=nan} h0",
       "p.txt:47:18: segment 0F: expected a number; found 'nan}'"},
      {"main gelu h0", "main gelu{dim=200} h0",
       "p.txt:47:17: segment 0F: a number has to be from -1 to 127, not 200"},
      {"main gelu h0", "main gelu{causal causal} h0", "p.txt:47:20: segment 0F: 'causal' twice"},
      {"main gelu h0", "main gelu{rate=0} h0", "p.txt:47:13: segment 0F: 'rate' is so unless said"},
      {"gelu h0[m] ->", "gelu z0[m] ->", "p.txt:47:13: segment 0F: no value is called 'z0'"},
      {"gelu h0[m] ->", "gelu h0 ->",
       "p.txt:47:13: segment 0F: 'h0' is of a microbatch; write h0[m]"},
      {"x0[m] w1 ->", "x0[m] w1[m] ->",
       "p.txt:46:21: segment 0F: 'w1' is not of a microbatch; leave out its slot"},
      {"x0[m] w1 -> h0[m]", "x0[m] w1 ->", "p.txt:46:26: segment 0F: expected an operand"},
      {"x0[m] w1 -> h0[m]", "x0[m] +> w1 -> h0[m]",
       "p.txt:46:27: segment 0F: '->' stands too late in the line"},
      {"all_reduce:tp p0", "all_reduce:dp p0", "p.txt:49:17: segment 0F: no group is called 'dp'"},
      {"send:0", "send:2", "p.txt:77:12: segment 0SEND_F: there is no transfer 2"},
      {"class pp:1", "class pp:2",
       "p.txt:102:10: class: a coordinate has to be from 0 to 1, not 2"},
      {"0F0 0SEND", "0G0 0SEND", "p.txt:101:9: calls: no segment is called '0G0'"},
      {"0F0 0SEND", "0F 0SEND", "p.txt:101:9: calls: '0F' takes a microbatch"},
      {"0F0 0SEND", "0F2 0SEND", "p.txt:101:11: calls: a microbatch has to be from 0 to 1, not 2"},
      {"0B0 ", "0B0{@4:0NROM} ", "p.txt:101:51: calls: no segment is called '0NROM'"},
      {"0B0 ", "0B0^ ", "p.txt:101:48: calls: expected the number of a call; found a space"},
      {"placement pp:2", "placement pp:-2",
       "p.txt:104:14: placement: a stride has to be from 0 to 1048576, not -2"},
      {"tp:1\n", "tp:1", "p.txt:104:20: the text breaks off: its last line has no end"},
      {"placement pp:2 tp:1\n", "", "p.txt:104:1: the text breaks off before its placement"},
      {"pool rf:2\n", "value v fp32[1] step buffer\npool rf:2\n",
       "p.txt:9:1: 'pool' cannot stand after 'value'"},
      {"pool rf:2\n", "pool rf:2 host nvme\n",
       "p.txt:8:15: pool: expected the line to end; found a space"},
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
  const std::string small = to_text(compiled_program(
      prepare_text("model: {family: gpt, layers: 2, hidden: 8, heads: 2, vocab: 16, seq_len: 4}\n"
                   "cluster: {preset: dgx-a100-80g, nodes: 1}\n"
                   "parallel: {tensor: 2, pipeline: 2, data: 2, zero: 1}\n"
                   "training: {global_batch: 16, microbatch: 1}\n")));
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

}  // namespace trainyard::damaged_program_text_test
