// Numbers for people: the unit follows the value, and what rounds up to the next unit has it.
#include "engine/base/readable.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/base/cut_middle.h"

namespace trainyard::readable_test {

TEST_CASE("durations go from nanoseconds to hours") {
  CHECK(duration_text(0) == "0 s");
  CHECK(duration_text(1e-13) == "0 s");  // what sums of seconds leave of nothing
  CHECK(duration_text(2.5e-7) == "250.000 ns");
  CHECK(duration_text(4.5e-5) == "45.000 us");
  CHECK(duration_text(0.842712) == "842.712 ms");
  CHECK(duration_text(19.5914) == "19.591 s");
  CHECK(duration_text(102.6) == "102.600 s");
  CHECK(duration_text(1115.234624) == "18.587 min");
  CHECK(duration_text(86400) == "24.000 h");
  CHECK(duration_text(-0.25) == "-250.000 ms");
  CHECK(signed_duration_text(0.25) == "+250.000 ms");
  CHECK(signed_duration_text(-3) == "-3.000 s");
}

TEST_CASE("bytes are binary, rates decimal, and neither is ever 0.0 of too large a unit") {
  CHECK(bytes_text(Bytes{0}) == "0 B");
  CHECK(bytes_text(Bytes{255}) == "255 B");
  CHECK(bytes_text(Bytes{1536}) == "1.500 KiB");
  CHECK(bytes_text(7.5) == "8 B");  // no part of a byte is ever moved
  CHECK(bytes_text(1023.4) == "1023 B");
  CHECK(bytes_text(1.58 * kMiB) == "1.580 MiB");
  CHECK(bytes_text(57.13 * kGiB) == "57.13 GiB");
  CHECK(bytes_text(3000.68 * kGiB) == "2.930 TiB");
  CHECK(bytes_text(-2.0 * kGiB) == "-2.000 GiB");
  CHECK(byte_rate_text(24.07e9) == "24.07 GB/s");
  CHECK(byte_rate_text(3.2e6) == "3.200 MB/s");
  CHECK(flop_rate_text(168.84e12) == "168.8 TFLOP/s");
  CHECK(flop_rate_text(4.1e10) == "41.00 GFLOP/s");
  CHECK(flop_rate_text(0) == "0 FLOP/s");
  CHECK(plural(1, "shape") == "1 shape");
  CHECK(plural(0, "shape") == "0 shapes");
  CHECK(plural(16, "microbatch", "microbatches") == "16 microbatches");
  CHECK(count_text(174.62e9) == "174.62 B");
}

TEST_CASE("the unit of a table is one in which nothing that is there looks like nothing") {
  // 0.005 GiB are the least that two digits round up to 0.01.
  CHECK(bytes_unit(57 * kGiB).name == "GiB");
  CHECK(bytes_unit(0.0051 * kGiB).name == "GiB");
  CHECK(bytes_unit(0.0049 * kGiB).name == "MiB");
  CHECK(bytes_unit(1.58 * kMiB).name == "MiB");
  CHECK(bytes_unit(2 * kKiB).name == "KiB");
  CHECK(duration_unit(0.006).name == "us");
  CHECK(duration_unit(0.7).name == "ms");
  CHECK(duration_unit(5).name == "ms");
  CHECK(duration_unit(19.6).name == "s");
  CHECK(duration_unit(1115).name == "s");
}

TEST_CASE("of a long list the middle is left out, and how much of it") {
  const std::vector<std::string> lines = {"a", "b", "c", "d", "e", "f", "g"};
  CHECK(cut_middle(lines, 7, "  ", "; more") == lines);
  // Three before, the line that says it, and two behind: 7 - 5.
  CHECK(cut_middle(lines, 6, "  ", "; more") ==
        std::vector<std::string>{"a", "b", "c", "  ... 2 lines left out; more", "f", "g"});
  CHECK(cut_middle(lines, 3, "", "") == std::vector<std::string>{"a", "... 5 lines left out", "g"});
  // The fourth stays; the second is of those that do anyway.
  CHECK(cut_around(lines, 3, 6, "", "; more") ==
        std::vector<std::string>{"a", "b", "... 1 line left out; more", "d",
                                 "... 2 lines left out; more", "g"});
  CHECK(cut_around(lines, 1, 6, "", "") == cut_middle(lines, 6, "", ""));
  CHECK(lines_of("x\n\ny\n") == std::vector<std::string>{"x", "", "y"});
  CHECK(joined({"x", "", "y"}) == "x\n\ny\n");
  std::string words = " ";
  for (int i = 0; i < 100; ++i) words += " 0F" + std::to_string(i);
  const std::string cut = cut_words(words, 80);
  CHECK(cut.size() <= 80);
  CHECK(cut.starts_with("  0F0 0F1 "));
  CHECK(cut.ends_with(" 0F99"));
  CHECK(cut.find(" words left out ... ") != std::string::npos);
  CHECK(cut_words("a b c", 80) == "a b c");
}

}  // namespace trainyard::readable_test
