#include "real/data/pair_samples.h"

#include <cmath>

#include "engine/base/error.h"
#include "engine/data/draws.h"
#include "real/data/noisy_labels.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

constexpr std::int64_t kKinds = 4;

void check_has_kinds(const Study& study, const char* what, std::int64_t count) {
  if (count >= kKinds) return;
  fail_at(study, std::string("model.") + what,
          "generated " + std::string(what) + " are of " + std::to_string(kKinds) +
              " kinds; expected at least as many, got " + std::to_string(count));
}

}  // namespace

PairSamples::PairSamples(const Study& study)
    : seed_(study.training.seed),
      users_(study.model.users),
      items_(study.model.items),
      learnable_(study.data.path == "generated") {
  if (!learnable_) return;
  check_has_kinds(study, "users", users_);
  check_has_kinds(study, "items", items_);
}

PairSamples::Pair PairSamples::pair(std::int64_t index) const {
  Draws draws(seed_, DrawPurpose::kPairs, index);
  Pair out{.user = draws.below(users_), .item = 0, .label = draws.below(2) == 1};
  if (!learnable_) {
    out.item = draws.below(items_);
    return out;
  }
  const std::int64_t on = out.label ? 0 : 1 + draws.below(kKinds - 1);
  const std::int64_t kind = (out.user + on) % kKinds;
  out.item = kind + kKinds * draws.below((items_ - kind - 1) / kKinds + 1);
  out.label = noisy_label(out.label ? 1 : 0, 2, draws) == 1;
  return out;
}

void PairSamples::fill(std::string_view name, std::int64_t index,
                       std::span<std::int64_t> out) const {
  if (name == "users") {
    out[0] = pair(index).user;
  } else if (name == "items") {
    out[0] = pair(index).item;
  } else {
    bug("a model of users and items has no input " + std::string(name));
  }
}

void PairSamples::fill_numbers(std::string_view name, std::int64_t index,
                               std::span<float> out) const {
  if (name != "labels") bug("a model of users and items has no input " + std::string(name));
  out[0] = pair(index).label ? 1.0F : 0.0F;
}

std::optional<double> PairSamples::best_loss() const {
  return learnable_ ? least_noisy_loss(2) : std::log(2.0);
}

std::string PairSamples::description() const {
  const std::string what = learnable_ ? "generated: kinds of " : "synthetic: ";
  return what + std::to_string(users_) + " users and " + std::to_string(items_) + " items";
}

}  // namespace trainyard
