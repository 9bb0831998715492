// The YAML layer: exact messages for every kind of fault, values at the edge of their types, --set,
// and texts made to hurt a parser.
#include "study/yaml_reader.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::yaml_reader_test {

namespace {

std::string failure(const std::function<void()>& action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

std::string parse_failure(const std::string& text) {
  return failure([&] { YamlNode::parse(text, "f.yaml"); });
}

YamlNode value(const std::string& text) {
  return YamlNode::parse("key: " + text, "f.yaml").at("key");
}

std::string integer_failure(const std::string& text) {
  return failure([&] { value(text).as_integer(); });
}

std::string repeat(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

}  // namespace

TEST_CASE("values know their line, column and key path") {
  const YamlNode root = YamlNode::parse("a:\n  b: 1\n  c: [x, y]\n", "f.yaml");
  const YamlNode a = root.at("a");
  CHECK(to_string(a.at("b").pos()) == "f.yaml:2:6");
  CHECK(a.at("b").key_path() == "a.b");
  CHECK(to_string(a.at("c").items()[1].pos()) == "f.yaml:3:10");
  CHECK(a.at("c").items()[1].key_path() == "a.c[1]");
  CHECK(a.keys() == std::vector<std::string>{"b", "c"});
}

TEST_CASE("faults of a map are reported at the key") {
  const std::string text = "parallel:\n  tensor: 8\n  tensr: 4\n";
  const YamlNode parallel = YamlNode::parse(text, "f.yaml").at("parallel");
  CHECK(parallel.has("tensor"));
  CHECK(failure([&] { parallel.finish(); }) ==
        "f.yaml:3:3: parallel.tensr: unknown key (did you mean tensor?); this map takes: tensor");
  CHECK(failure([&] { parallel.at("pipeline"); }) ==
        "f.yaml:2:3: parallel: missing required key 'pipeline'");
  CHECK(parse_failure("a: {x: 1,\n    x: 2}\n") == "f.yaml:2:5: a.x: appears twice in this map");
}

TEST_CASE("integers are whole, unquoted and in range") {
  CHECK(value("1536").as_integer() == 1536);
  CHECK(value("+8").as_integer() == 8);
  CHECK(value("40e6").as_integer() == 40'000'000);
  CHECK(value("2.0").as_integer() == 2);
  CHECK(value("2e0").as_integer() == 2);
  CHECK(value("-9223372036854775808").as_integer() == std::numeric_limits<std::int64_t>::min());

  CHECK(integer_failure("four") == "f.yaml:1:6: key: expected an integer, got 'four'");
  CHECK(integer_failure("1.5") == "f.yaml:1:6: key: expected an integer, got '1.5'");
  CHECK(integer_failure("15e-1") == "f.yaml:1:6: key: expected an integer, got '15e-1'");
  CHECK(integer_failure("1_000") == "f.yaml:1:6: key: expected an integer, got '1_000'");
  CHECK(integer_failure("0x10") == "f.yaml:1:6: key: expected an integer, got '0x10'");
  CHECK(integer_failure("'4'") == "f.yaml:1:6: key: expected an integer, got the text '4'");
  CHECK(integer_failure("~") == "f.yaml:1:6: key: expected an integer, got nothing");
  CHECK(integer_failure("[4]") == "f.yaml:1:6: key: expected an integer, got a list");
  CHECK(integer_failure("9223372036854775808") ==
        "f.yaml:1:6: key: too large an integer: '9223372036854775808'");
  CHECK(failure([] { value("0").as_integer(1); }) == "f.yaml:1:6: key: expected at least 1, got 0");
  CHECK(failure([] { value("9").as_integer(1, 8); }) ==
        "f.yaml:1:6: key: expected at most 8, got 9");
}

TEST_CASE("text that looks like a number or a truth value is text in quotes") {
  CHECK(value("gpt3-175b").as_text() == "gpt3-175b");
  CHECK(value("1f1b").as_text() == "1f1b");
  CHECK(value("'3'").as_text() == "3");
  CHECK(value("\"true\"").as_text() == "true");
  for (const std::string text : {"3", "-1.5e3", "1e999", "0x1F", "true", "False", ".inf", ".nan"}) {
    CHECK(failure([&] { value(text).as_text(); }) ==
          "f.yaml:1:6: key: expected text, got " + text + "; in quotes it is text");
  }
}

TEST_CASE("numbers are finite and booleans are true or false") {
  CHECK(value("3e-4").as_number() == 3e-4);
  CHECK(value("-.5").as_number() == -0.5);
  for (const std::string text : {".nan", ".inf", "nan", "inf", "1e999", "1e", "0x1p3", "--1"}) {
    CHECK(failure([&] { value(text).as_number(); }) ==
          "f.yaml:1:6: key: expected a finite number, got '" + text + "'");
  }
  CHECK(value("true").as_bool());
  CHECK(failure([] { value("yes").as_bool(); }) ==
        "f.yaml:1:6: key: expected true or false, got 'yes'");
}

TEST_CASE("quantities carry units") {
  CHECK(value("5 us").as_duration() == 5e-6);
  CHECK(value("300 GB/s").as_bandwidth() == 300e9);
  CHECK(value("200 Gbit/s").as_bandwidth() == 25e9);
  CHECK(value("80 GiB").as_bytes() == 80 * (std::int64_t{1} << 30));
  CHECK(value("80GB").as_bytes() == 80'000'000'000);
  CHECK(value("312 TFLOP/s").as_flop_per_second() == 312e12);
  CHECK(value("16 nodes").as_num_nodes() == 16);
  CHECK(value("16").as_num_nodes() == 16);

  CHECK(failure([] { value("25").as_bytes(); }) ==
        "f.yaml:1:6: key: '25' has no unit; write 25MiB or 25MB");
  CHECK(failure([] { value("768216272").as_bytes(); }) ==
        "f.yaml:1:6: key: '768216272' has no unit; write 768216272 B");
  CHECK(failure([] { value("300").as_bandwidth(); }) ==
        "f.yaml:1:6: key: '300' has no unit; write 300 GB/s or 300 Gbit/s");
  CHECK(failure([] { value("5 GB").as_duration(); }) ==
        "f.yaml:1:6: key: 'GB' is not a unit of duration; known: s, ms, us, µs, ns, min");
  CHECK(failure([] { value("fast").as_bandwidth(); }) ==
        "f.yaml:1:6: key: expected a bandwidth such as 25 GB/s, got 'fast'");
  CHECK(failure([] { value("-5 us").as_duration(); }) ==
        "f.yaml:1:6: key: expected 0 or more, got '-5 us'");
  CHECK(failure([] { value("1e30 GB").as_bytes(); }) == "f.yaml:1:6: key: too large: '1e30 GB'");
}

TEST_CASE("an option replaces or adds a value, and later ones win") {
  YamlNode root = YamlNode::parse("a:\n  b: 1\n", "f.yaml");
  root.set("a.b=2");
  root.set("a.b=3");
  root.set("c.d={e: [1, 2]}");
  const YamlNode b = root.at("a").at("b");
  CHECK(b.as_integer() == 3);
  CHECK(to_string(b.pos()) == "f.yaml:2:6");
  CHECK(b.set_by() == "--set a.b=3");
  CHECK(failure([&] { b.as_integer(4); }) ==
        "f.yaml:2:6: a.b: expected at least 4, got 3 (set by --set a.b=3)");
  const YamlNode item = root.at("c").at("d").at("e").items()[1];
  CHECK(item.key_path() == "c.d.e[1]");
  CHECK(failure([&] { item.as_integer(4); }) ==
        "--set c.d={e: [1, 2]}: c.d.e[1]: expected at least 4, got 2");
}

TEST_CASE("an option of another name is called by it") {
  YamlNode root = YamlNode::parse("a: 1\n", "f.yaml");
  root.set("a=2", "--a 2");
  CHECK(root.at("a").set_by() == "--a 2");
  CHECK(failure([&] { root.set("b=[", "--b ["); }) ==
        "--b [: b: a key must be a name; is a bracket before it not closed?");
}

TEST_CASE("an option that leads nowhere says so") {
  const auto set = [](const std::string& option) {
    return failure([&] { YamlNode::parse("a: word\n", "f.yaml").set(option); });
  };
  CHECK(set("a.b=1") == "--set a.b=1: a: is 'word', at f.yaml:1:4; it has no 'b' to set");
  CHECK(set("novalue") == "--set novalue: expected path=value, such as parallel.pipeline=8");
  CHECK(set("a..b=1") == "--set a..b=1: an empty name in the path");
  CHECK(set("=1") == "--set =1: expected path=value, such as parallel.pipeline=8");
  CHECK(set("c=[") == "--set c=[: c: a key must be a name; is a bracket before it not closed?");
  CHECK(set("c=[2,4") ==
        "--set c=[2,4: c: a key must be a name; is a bracket before it not closed?");
  CHECK(set("c={d: [1}") == "--set c={d: [1}: c: not YAML: illegal flow end");
  CHECK(set("c='x") == "--set c='x: c: not YAML: illegal EOF in scalar");
}

TEST_CASE("text that is not one YAML document of reasonable size is refused") {
  CHECK(parse_failure("a: [1\n") == "f.yaml:2:1: not YAML: end of sequence flow not found");
  CHECK(parse_failure("a: \xff\n") == "f.yaml:1:4: not UTF-8 text");
  CHECK(parse_failure(std::string("a: \0\n", 5)) == "f.yaml:1:4: control character in the text");
  CHECK(parse_failure("a: 1\n---\nb: 2\n") ==
        "f.yaml:2:1: a second YAML document; one file holds one");
  CHECK(parse_failure("a: !!int 3\n") ==
        "f.yaml:1:4: the tag 'tag:yaml.org,2002:int'; tags have no meaning here, leave it out");
  CHECK(parse_failure("[a]: 1\n") ==
        "f.yaml:1:1: a key must be a name; is a bracket before it not closed?");
  CHECK(parse_failure("a: &x [*x]\n") == "f.yaml:1:8: an alias inside what it stands for");
  CHECK(parse_failure(repeat("- ", 100)) == "f.yaml:1:129: nested more than 64 deep");
  CHECK(parse_failure(repeat("#", (4 << 20) + 1)) == "f.yaml: larger than 4 MiB");
  CHECK(parse_failure("a: [" + repeat("x,", 300'000) + "x]") ==
        "f.yaml:1:499999: more than 250000 values, aliases expanded");
}

TEST_CASE("aliases that double at each step do not fill the memory") {
  std::string text = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    const std::string name = "a" + std::to_string(i);
    text += name + ": &" + name + " [" + before + ", " + before + "]\n";
  }
  CHECK_THAT(parse_failure(text), Catch::Contains("more than 250000 values, aliases expanded"));
}

TEST_CASE("an alias is a value of its own") {
  YamlNode root = YamlNode::parse("a: &x {b: 1}\nc: *x\n", "f.yaml");
  root.set("c.b=2");
  CHECK(root.at("a").at("b").as_integer() == 1);
  CHECK(root.at("c").at("b").as_integer() == 2);
  CHECK(root.at("c").at("b").key_path() == "c.b");
}

TEST_CASE("a merge key is refused at its place, not taken for an unknown one") {
  const char* refused =
      ": keys of other maps are not merged here; write them out, or let an alias be the whole map, "
      "and replace single values with --set";
  CHECK(parse_failure("a: &x {b: 1}\nc: {<<: *x, d: 2}\n") ==
        std::string("f.yaml:2:5: c.<<") + refused);
  CHECK(parse_failure("<<: {b: 1}\n") == std::string("f.yaml:1:1: <<") + refused);
  // In quotes it is a name, as in YAML.
  CHECK(YamlNode::parse("\"<<\": 1\n", "f.yaml").at("<<").as_integer() == 1);
}

TEST_CASE("a file that cannot be read is the user's fault") {
  CHECK(failure([] { YamlNode::load_file("/nowhere/study.yaml"); }) ==
        "/nowhere/study.yaml: cannot open: No such file or directory");
  CHECK(failure([] { YamlNode::load_file("/"); }) == "/: cannot read: Is a directory");
}

}  // namespace trainyard::yaml_reader_test
