// What a terminal would obey is written out, whatever brought it there.
#include "engine/base/plain_text.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/base/error.h"
#include "engine/base/user_text.h"
#include "tests/support/obeyed_characters.h"

namespace trainyard::plain_text_test {

TEST_CASE(
    "control characters, marks that turn text around and bytes that are no UTF-8 are written out") {
  CHECK(plain_text("a\x1b[31mb") ==
        "a\\x1b[31mb");  // ESC: colours, titles, answers of the terminal
  CHECK(plain_text("one\ntwo\r\t\a\x7f") == "one\\ntwo\\r\\t\\x07\\x7f");
  CHECK(plain_text("\xc2\x9b"
                   "31m") == "\\u009b31m");  // C1: CSI in one character
  CHECK(plain_text("\xe2\x80\xae"
                   "gpt") == "\\u202egpt");  // U+202E, right-to-left override
  CHECK(plain_text("\xe2\x81\xa6\xe2\x80\xa8\xd8\x9c") == "\\u2066\\u2028\\u061c");
  CHECK(plain_text("\xff\xc0\xaf") == "\\xff\\xc0\\xaf");  // no UTF-8; an overlong '/'
  CHECK(plain_text("Modèle 模型 😀 \\n") == "Modèle 模型 😀 \\n");
  CHECK(plain_lines("a\x1b\n\tb\a\n") == "a\\x1b\n\tb\\x07\n");
}

TEST_CASE("JSON keeps every character that a terminal obeys, written out") {
  for (const std::string& one : obeyed_characters()) {
    const std::string name = "a" + one + one + "\\u0041模😀\"";
    CAPTURE(name);
    const nlohmann::json json = {{name, {name, 1.5}}};
    for (const int indent : {-1, 2}) {
      const std::string plain = plain_json(json.dump(indent));
      CHECK(nlohmann::json::parse(plain) == json);
      if (indent < 0 || one != "\n") CHECK_THAT(plain, !Catch::Contains(one));
      CHECK_THAT(plain, Catch::Contains("模😀"));
    }
  }
  CHECK(plain_json("[\"\xc2\x9b\xe2\x80\xae\x7f\"]\n") == "[\"\\u009b\\u202e\\u007f\"]\n");
  CHECK(plain_json("\"\xff\"") == "\"\\ufffd\"");  // no UTF-8 is no JSON
}

TEST_CASE("a message has one line, whatever it is about") {
  const ConfigError placed({"a\n\x1b[2Jb.yaml", 3, 4}, "model.\x07name",
                           "expected 'x', got '\xc2\x9b'");
  CHECK(std::string(placed.what()) ==
        "a\\n\\x1b[2Jb.yaml:3:4: model.\\x07name: expected 'x', got '\\u009b'");
  CHECK(std::string(ConfigError("out\n: no such folder").what()) == "out\\n: no such folder");
}

TEST_CASE("what is shortened is not cut within what is written out") {
  CHECK(printable("abc\x1b", 7) == "abc\\x1b");
  CHECK(printable("abcd\x1b", 7) == "abcd...");
}

}  // namespace trainyard::plain_text_test
