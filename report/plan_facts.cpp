#include "report/plan_facts.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "report/summary.h"
#include "study/study_words.h"
#include "study/yaml_reader.h"

namespace trainyard {

namespace {

class Facts {
 public:
  explicit Facts(const YamlNode& root) : root_(root) {}

  /// The text of `section`.`key`, of its `method`, `name` or `type` where it is a map; "": there is
  /// none.
  std::string text(std::string_view section, std::string_view key = "") const {
    std::optional<YamlNode> node = root_.find(section);
    if (node && !key.empty()) node = node->is_map() ? node->find(key) : std::nullopt;
    if (node && node->is_map()) {
      std::optional<YamlNode> name;
      for (const char* named : {"method", "name", "type", "stage"}) {
        if (!name) name = node->find(named);
      }
      node = name;
    }
    return node && node->is_scalar() ? node->as_string() : "";
  }
  /// The items of a list, a space between them; "": there is none.
  std::string list(std::string_view section, std::string_view key) const {
    std::optional<YamlNode> node = root_.find(section);
    node = node && node->is_map() ? node->find(key) : std::nullopt;
    std::string items;
    if (!node || !node->is_sequence()) return items;
    for (const YamlNode& item : node->items())
      items += (items.empty() ? "" : " ") + std::to_string(item.as_integer());
    return items;
  }
  /// "4 (ring)"; "": a sequence is one rank's.
  std::string context() const {
    const std::optional<YamlNode> node = of_parallel("context");
    if (!node || !node->is_map()) return "";
    return node->at("degree").as_string() + " (" + node->at("method").as_string() + ")";
  }
  /// "3"; in groups of replicas "3 in 2 groups of 4 ranks (HSDP)", each of which has all.
  std::string zero() const {
    const std::string stage = text("parallel", "zero");
    const std::optional<YamlNode> zero = of_parallel("zero"), shared = of_parallel("context");
    const std::optional<YamlNode> groups =
        zero && zero->is_map() ? zero->find("replicate") : std::nullopt;
    if (!groups) return stage;
    const bool is_shared = shared && shared->is_map();
    const std::int64_t number = groups->as_integer(1);
    const std::int64_t ranks =
        integer("parallel", "data") * (is_shared ? shared->at("degree").as_integer(1) : 1);
    return stage + " in " + std::to_string(number) + " groups of " +
           std::to_string(ranks / number) + " ranks (HSDP)";
  }
  std::int64_t integer(std::string_view section, std::string_view key) const {
    const std::string value = text(section, key);
    return value.empty() ? 0 : root_.at(section).at(key).as_integer();
  }

 private:
  std::optional<YamlNode> of_parallel(std::string_view key) const {
    const std::optional<YamlNode> node = root_.find("parallel");
    return node && node->is_map() ? node->find(key) : std::nullopt;
  }

  const YamlNode& root_;
};

/// "before" value "after", behind a comma; nothing where there is no value.
void append(std::string& to, const std::string& before, const std::string& value,
            const std::string& after = "") {
  if (value.empty()) return;
  if (!to.empty()) to += ", ";
  to += before + value + after;
}

std::string counted(std::int64_t number, const std::string& one, const std::string& ending) {
  return std::to_string(number) + " " + one + (number == 1 ? "" : ending);
}

}  // namespace

PlanWords plan_words(const std::string& yaml, const std::string& path) {
  const YamlNode root = YamlNode::parse(yaml, path);
  if (!root.is_map()) root.fail("expected a study");
  const Facts facts(root);
  const bool of_cpus = facts.text("training", "kernels") == "cpu";
  const std::string name = facts.text("model", "family");
  const auto found = std::find(kFamilyWords.begin(), kFamilyWords.end(), name);
  const bool known = found != kFamilyWords.end();
  const Family family = known ? Family(found - kFamilyWords.begin()) : Family::kGpt;
  return {device_word(of_cpus ? KernelSet::kCpu : KernelSet::kCuda), is_of_images(family),
          std::string(speed_unit(family))};
}

std::vector<PlanFact> plan_facts(const std::string& yaml, const std::string& path) {
  const YamlNode root = YamlNode::parse(yaml, path);
  if (!root.is_map()) root.fail("expected a study");
  const Facts facts(root);
  std::vector<PlanFact> out;

  std::string model = facts.text("model", "family");
  if (const std::string name = facts.text("model", "name"); !name.empty() && name != "custom")
    model = name;
  append(model, "", facts.text("model", "layers"), " layers");
  append(model, "hidden ", facts.text("model", "hidden"));
  append(model, "", facts.text("model", "heads"), " heads");
  append(model, "vocabulary ", facts.text("model", "vocab"));
  append(model, "sequences of ", facts.text("model", "seq_len"), " tokens");
  append(model, "depth ", facts.text("model", "depth"));
  append(model, "images of ", facts.text("model", "image_size"),
         " x " + facts.text("model", "image_size"));
  append(model, "", facts.text("model", "users"), " users");
  append(model, "", facts.text("model", "items"), " items");
  out.push_back({"Model", model});

  std::string cluster = facts.text("cluster", "name");
  if (const std::int64_t nodes = facts.integer("cluster", "nodes"); nodes > 0) {
    append(cluster, "",
           counted(nodes, "node", "s") + " of " + facts.text("cluster", "devices_per_node") +
               " x " + facts.text("cluster", "device"));
  }
  out.push_back({"Cluster", cluster});

  std::string parallel;
  append(parallel, "tensor ", facts.text("parallel", "tensor"));
  append(parallel, "pipeline ", facts.text("parallel", "pipeline"));
  if (const std::string stages = facts.text("parallel", "virtual_stages");
      !stages.empty() && stages != "1") {
    parallel += " x " + stages + " stages each";
  }
  append(parallel, "stages on ranks ", facts.list("partition", "on"));
  append(parallel, "data ", facts.text("parallel", "data"));
  append(parallel, "replicas ", facts.list("partition", "replicas"));
  append(parallel, "context ", facts.context());
  if (facts.text("parallel", "sequence_parallel") == "true")
    append(parallel, "", "sequence parallel");
  append(parallel, "ZeRO ", facts.zero());
  append(parallel, "placement ", facts.text("parallel", "placement"));
  out.push_back({"Parallel", parallel});

  std::string schedule = facts.text("schedule");
  const std::int64_t batch = facts.integer("training", "global_batch");
  const bool of_all =
      facts.text("parallel", "data").empty();  // a microbatch, of partition.replicas
  const std::int64_t per_round =
      facts.integer("training", "microbatch") * (of_all ? 1 : facts.integer("parallel", "data"));
  if (batch > 0 && per_round > 0) {
    append(schedule, "",
           counted(batch / per_round, "microbatch", "es") + " of " +
               facts.text("training", "microbatch"));
  }
  append(schedule, "partition ", facts.text("partition"));
  append(schedule, "recompute ", facts.text("recompute"));
  out.push_back({"Schedule", schedule});

  std::string training = "global batch " + facts.text("training", "global_batch");
  append(training, "", facts.text("training", "precision"));
  append(training, "", facts.text("training", "optimizer"));
  append(training, "framework ", facts.text("framework"));
  out.push_back({"Training", training});
  append(out.back().value, "fidelity ", facts.text("fidelity"));
  return out;
}

}  // namespace trainyard
