// The outline of a Program: the beginning and the end of each list, and how much is left out
// between them.
#include "engine/program/program_outline.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "engine/base/cut_middle.h"
#include "engine/program/program_text.h"
#include "tests/support/example_program.h"
#include "tests/support/studies.h"

namespace trainyard::program_outline_test {

TEST_CASE(
    "an outline is short however long the Program is, and every line of it is the Program's or "
    "says what is not") {
  const std::string study =
      "model: {family: t5, layers: 12, hidden: 256, heads: 4, vocab: 512, seq_len: 64}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 2}\nparallel: {tensor: 2, pipeline: 4, data: 2, "
      "zero: 1}\n"
      "training: {global_batch: 128, microbatch: 1}\nrecompute: full\n";
  const std::string whole = to_text(compiled_program(prepare_text(study)));
  const std::vector<std::string> all = lines_of(whole);
  REQUIRE(all.size() > 1000);
  const std::vector<std::string> outline = lines_of(program_outline(whole, 160, "; see it all"));
  CHECK(outline.size() <= kOutlineLines);
  CHECK(outline.front() == all.front());
  CHECK(outline.back() == all.back());
  std::size_t shown = 0, left_out = 0;
  for (const std::string& line : outline) {
    CHECK(line.size() <= 160);
    if (line.ends_with(" left out; see it all")) {
      left_out += std::stoul(line.substr(line.find("... ") + 4));
    } else {
      ++shown;
      if (line.find(" words left out ...") == std::string::npos)
        CHECK(std::find(all.begin(), all.end(), line) != all.end());
    }
  }
  CHECK(shown + left_out == all.size());
}

TEST_CASE("an outline has every kind of list") {
  const std::string whole = to_text(parse_program(kExampleProgram, "example"));
  const std::string outline = program_outline(whole, 400, "");
  for (const char* list : {"mesh ", "pool rf", "segment 0ZERO()", "class pp:0", "class pp:1"}) {
    CAPTURE(list);
    CHECK(outline.find(list) != std::string::npos);
  }
}

}  // namespace trainyard::program_outline_test
