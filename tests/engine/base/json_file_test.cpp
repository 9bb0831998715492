// JSON without trust: what is refused, and at which place.
#include <catch2/catch.hpp>
#include <string>

#include "engine/base/json_fields.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::json_file_test {

namespace {

std::string refusal(const std::string& text, JsonFile::Places places = JsonFile::Places::kLines) {
  return error_of([&] { JsonFile(text, "f.json", places); });
}

/// What reading member `key` of the file's object as an integer from 0 to 9 says.
std::string refusal_of(const std::string& text, const std::string& key) {
  return error_of([&] {
    const JsonFile file(text, "f.json");
    JsonFields(file).integer(key, 0, 9);
  });
}

}  // namespace

TEST_CASE("JSON that no double or no object can hold is refused at its place") {
  CHECK(refusal("{\"a\": [1, 2.5e3, -1, \"x\", null]}") == "none");
  CHECK(refusal("{\"a\":\n  [1, 1e400]}") == "f.json:2:7: no double holds the number 1e400");
  CHECK(refusal("-1e999") == "f.json:1:1: no double holds the number -1e999");
  CHECK(refusal("{\"a\": 1e-999}") == "none");  // 0
  CHECK(refusal("{\"a\": NaN}") ==
        "f.json:1:7: is not JSON: syntax error while parsing value - invalid literal; "
        "last read: '\"a\": N'");
  CHECK(refusal("") ==
        "f.json:1:1: is not JSON: syntax error while parsing value - unexpected end of input; "
        "expected '[', '{', or a literal");
  CHECK(refusal("{\"a\": {\"b\": 1, \"c\": 2, \"b\": 3}}") ==
        "f.json:1:8: a.b: appears twice in this object");
  CHECK(refusal("{\"a\": [0, {\"b\": 1, \"b\": 3}]}") ==
        "f.json:1:12: a[1].b: appears twice in this object");
  const std::string deep(100'000, '[');
  CHECK(refusal(deep).ends_with(": nests deeper than 32 levels"));
  CHECK(refusal(std::string(32, '[') + std::string(32, ']')) == "none");
  CHECK(refusal(std::string(33, '[') + std::string(33, ']'))
            .ends_with(": nests deeper than 32 levels"));
}

TEST_CASE("control characters of a damaged file do not reach the terminal") {
  const std::string what = refusal("{\"a\x1b[2J\": 1");
  CHECK(what.find('\x1b') == std::string::npos);
  CHECK(refusal("{\"\\u001b[2J\": 1, \"\\u001b[2J\": 2}") ==
        "f.json:1:2: \\x1b[2J: appears twice in this object");
}

TEST_CASE("a part of another file has no lines") {
  CHECK(refusal("{\"a\": 1e400}", JsonFile::Places::kKeys) ==
        "f.json: no double holds the number 1e400");
  CHECK(refusal("{\"a\": 1, \"a\": 2}", JsonFile::Places::kKeys) ==
        "f.json: a: appears twice in this object");
}

TEST_CASE("members are found again where they stand") {
  // Past strings, escapes and nested members that look like the key.
  const std::string text =
      "{\"note\": \"\\\"n\\\": 1\", \"in\": {\"n\": 0},\n \"list\": [\"n\", {\"n\": [1, {\"m\": "
      "true}]}],\n"
      "   \"\\u006e\" : 12}";
  CHECK(refusal_of(text, "n") == "f.json:3:4: n: expected at most 9, got 12");
  CHECK(refusal_of(text, "missing") == "f.json:1:1: missing: missing");
  CHECK(refusal_of(text, "note") == "f.json:1:2: note: expected an integer, got \"\\\"n\\\": 1\"");
  const JsonFile file(text, "f.json");
  CHECK(to_string(file.where({"in", "n"})) == "f.json:1:29");
  CHECK(to_string(file.where({"list", std::size_t{1}, "n", std::size_t{1}, "m"})) == "f.json:2:27");
  CHECK(to_string(file.where({"list", std::size_t{7}})) ==
        "f.json:2:2");  // the innermost around it
}

TEST_CASE("integers keep their range") {
  CHECK(refusal_of("{\"n\": 18446744073709551615}", "n") ==
        "f.json:1:2: n: expected at most 9, got 18446744073709551615");
  CHECK(refusal_of("{\"n\": -9223372036854775808}", "n") ==
        "f.json:1:2: n: expected at least 0, got -9223372036854775808");
  CHECK(refusal_of("{\"n\": 1.0}", "n") == "f.json:1:2: n: expected an integer, got 1.0");
  CHECK(refusal_of("[1]", "n") == "f.json:1:1: expected a JSON object, got [1]");
}

}  // namespace trainyard::json_file_test
