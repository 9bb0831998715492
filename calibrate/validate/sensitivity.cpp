#include "calibrate/validate/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

namespace {

class HeldNumbers {
 public:
  HeldNumbers(const std::vector<FittedNumber>& numbers, std::vector<SensitiveRow> rows)
      : numbers_(numbers) {
    out_.rows = std::move(rows);
    for (const FittedNumber& number : numbers_) {
      at_.push_back(std::log(number.value));
      bounds_.push_back(number.bounds);
      options_.priors.push_back(number.prior);
    }
    for (const SensitiveRow& row : out_.rows) {
      check(row.derivatives.size() == numbers_.size(), "a derivative by each number");
      if (std::find(families_.begin(), families_.end(), row.family) == families_.end())
        families_.push_back(row.family);
    }
  }

  Sensitivity find() && {
    const std::vector<double> all = refitted("");
    for (std::size_t n = 0; n < numbers_.size(); ++n) {
      NumberSensitivity& one = out_.numbers.emplace_back();
      one.number = numbers_[n];
      one.index = n;
      one.refitted = all[n];
      find_rows(n, one);
    }
    for (const std::string& family : families_) {
      const std::vector<double> without = refitted(family);
      for (std::size_t n = 0; n < numbers_.size(); ++n)
        add_family(family, without[n], out_.numbers[n]);
    }
    for (NumberSensitivity& one : out_.numbers)
      std::stable_sort(one.families.begin(), one.families.end(),
                       [](const auto& a, const auto& b) { return a.share > b.share; });
    return std::move(out_);
  }

 private:
  /// The numbers where one step leads that does not look at the rows of a family.
  std::vector<double> refitted(const std::string& without) const {
    Matrix jacobian;
    std::vector<double> errors;
    for (const SensitiveRow& row : out_.rows) {
      if (row.family == without) continue;
      jacobian.push_back(row.derivatives);
      errors.push_back(row.error);
    }
    std::vector<double> values;
    const std::vector<double> logs = newton_step(at_, bounds_, errors, jacobian, options_);
    for (std::size_t n = 0; n < logs.size(); ++n)
      values.push_back(logs[n] == at_[n] ? numbers_[n].value : std::exp(logs[n]));
    return values;
  }

  void find_rows(std::size_t n, NumberSensitivity& one) const {
    double sum = 0;
    for (std::size_t r = 0; r < out_.rows.size(); ++r) {
      const double derivative = out_.rows[r].derivatives[n];
      if (std::abs(derivative) < kLeastDerivative) continue;
      const double says =
          huber_weight(out_.rows[r].error, options_.threshold) * derivative * derivative;
      one.held.push_back({r, says});
      sum += says;
    }
    for (auto& held : one.held) held.share /= sum;
    std::stable_sort(one.held.begin(), one.held.end(),
                     [](const auto& a, const auto& b) { return a.share > b.share; });
  }

  void add_family(const std::string& name, double without, NumberSensitivity& one) const {
    NumberSensitivity::Family family;
    family.family = name;
    family.without = without;
    for (const auto& held : one.held) {
      if (out_.rows[held.row].family != name) continue;
      ++family.rows;
      family.share += held.share;
    }
    if (family.rows == 0) return;
    family.held_alone = family.rows == one.held.size();
    if (family.held_alone) family.without = one.number.value;
    one.families.push_back(std::move(family));
  }

  const std::vector<FittedNumber>& numbers_;
  std::vector<double> at_;  // ln of the values
  std::vector<Bounds> bounds_;
  FitOptions options_;
  std::vector<std::string> families_;
  Sensitivity out_;
};

}  // namespace

Sensitivity find_sensitivity(const std::vector<FittedNumber>& numbers,
                             std::vector<SensitiveRow> rows) {
  return HeldNumbers(numbers, std::move(rows)).find();
}

}  // namespace trainyard
