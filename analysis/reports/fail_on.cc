#include "analysis/reports/fail_on.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "analysis/reports/diff_words.h"
#include "analysis/reports/finding_text.h"
#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

constexpr std::array<std::string_view, 10> kFigures = {"peak",      "live",      "tensor-peak", "tensor-live",
                                                       "host-peak", "host-live", "reserved",    "allocations",
                                                       "leaks",     "leak-bytes"};
constexpr std::size_t kMostDigits = 15, kMostDecimals = 6;

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool IsDigit(char byte) { return byte >= '0' && byte <= '9'; }

// Takes it from the front; nullopt if there is none, or too much of it.
std::optional<double> TakeNumber(std::string_view& text) {
  double value = 0, unit = 1;
  std::size_t digits = 0, decimals = 0;
  for (; digits < text.size() && IsDigit(text[digits]); ++digits) value = value * 10 + (text[digits] - '0');
  if (digits == 0 || digits > kMostDigits) return std::nullopt;
  text.remove_prefix(digits);
  if (text.empty() || text.front() != '.') return value;
  text.remove_prefix(1);
  for (; decimals < text.size() && IsDigit(text[decimals]); ++decimals) {
    unit /= 10;
    value += unit * (text[decimals] - '0');
  }
  if (decimals == 0 || decimals > kMostDecimals) return std::nullopt;
  text.remove_prefix(decimals);
  return value;
}

// 0: no unit of bytes.
double UnitOf(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 5> kUnits = {
      {{"", 1}, {"B", 1}, {"KiB", 1024}, {"MiB", 1024.0 * 1024}, {"GiB", 1024.0 * 1024 * 1024}}};
  for (const auto& [name, unit] : kUnits) {
    if (text == name) return unit;
  }
  return 0;
}

std::string Without(std::string_view text, char what) {
  std::string result(text);
  std::erase(result, what);
  return result;
}

std::optional<FailCondition> ParseOne(std::string_view text) {
  FailCondition condition;
  condition.text = Without(text, ' ');
  const std::size_t sign = text.find('>');
  if (sign == std::string_view::npos) return std::nullopt;
  const auto* figure = std::find(kFigures.begin(), kFigures.end(), Trimmed(text.substr(0, sign)));
  if (figure == kFigures.end()) return std::nullopt;
  condition.figure = static_cast<Figure>(figure - kFigures.begin());
  text.remove_prefix(sign + 1);
  condition.or_equal = text.starts_with('=');
  if (condition.or_equal) text.remove_prefix(1);
  text = Trimmed(text);
  const bool growth = text.starts_with('+');
  if (growth) {
    text = Trimmed(text.substr(1));
    condition.bound = BoundKind::kGrowth;
  }
  const std::optional<double> number = TakeNumber(text);
  if (!number) return std::nullopt;
  text = Trimmed(text);
  if (text == "%") {
    // Of what, without a sign?
    if (!growth) return std::nullopt;
    condition.bound = BoundKind::kGrowthPercent;
    condition.amount = *number;
    return condition;
  }
  const double unit = InBytes(condition.figure) ? UnitOf(text) : (text.empty() ? 1 : 0);
  if (unit == 0) return std::nullopt;
  condition.amount = *number * unit;
  return condition;
}

struct Place {
  std::string where;
  BeforeAfter value;
};

// Every place that the figure is taken of.
class Figures {
 public:
  explicit Figures(const Diff& diff) : diff_(diff) {}

  std::vector<Place> Of(Figure figure) const {
    switch (figure) {
      case Figure::kPeak:
      case Figure::kLive:
        return Scopes(figure == Figure::kPeak, false, false);
      case Figure::kTensorPeak:
      case Figure::kTensorLive:
        return Scopes(figure == Figure::kTensorPeak, false, true);
      case Figure::kHostPeak:
      case Figure::kHostLive:
        return Scopes(figure == Figure::kHostPeak, true, false);
      case Figure::kReserved:
        return Reserved();
      case Figure::kAllocations:
        return {Allocations()};
      case Figure::kLeaks:
        return {{"", diff_.leak_count}};
      case Figure::kLeakBytes:
        return {{"", diff_.leaked_bytes}};
    }
    return {};
  }

  bool Known(Figure figure) const {
    return figure != Figure::kAllocations ||
           std::all_of(diff_.scopes.begin(), diff_.scopes.end(), [](const ScopeDiff& scope) { return scope.counts; });
  }

 private:
  std::vector<Place> Scopes(bool peak, bool host, bool tensors) const {
    std::vector<Place> places;
    for (const ScopeDiff& scope : diff_.scopes) {
      if (scope.scope.host == host && scope.scope.tensors == tensors)
        places.push_back({ScopeName(scope.scope), peak ? scope.peak_bytes : scope.live_bytes});
    }
    return places;
  }
  std::vector<Place> Reserved() const {
    std::vector<Place> places;
    places.reserve(diff_.held.size());
    for (const HeldDiff& held : diff_.held) places.push_back({HolderName(held), held.peak_bytes});
    return places;
  }
  Place Allocations() const {
    Place place;
    for (const ScopeDiff& scope : diff_.scopes) place.value.Add(scope.allocations);
    return place;
  }
  const Diff& diff_;
};

// By how much the bound is exceeded; below 0: it is not. In the bound's own unit.
double Excess(const FailCondition& condition, const BeforeAfter& value) {
  const double before = static_cast<double>(value.before), after = static_cast<double>(value.after);
  switch (condition.bound) {
    case BoundKind::kValue:
      return after - condition.amount;
    case BoundKind::kGrowth:
      return after - before - condition.amount;
    case BoundKind::kGrowthPercent:
      break;
  }
  // Without a division, so that a growth of just 5 % does not exceed 5 % by rounding.
  return (after - before) * 100 - condition.amount * before;
}

Judgement Judge(const FailCondition& condition, const Figures& figures) {
  Judgement judgement;
  judgement.condition = condition;
  judgement.known = figures.Known(condition.figure);
  if (!judgement.known) {
    judgement.text = condition.text + ": not known, since events are missing";
    return judgement;
  }
  double most = 0;
  bool first = true;
  for (const Place& place : figures.Of(condition.figure)) {
    const double excess = Excess(condition, place.value);
    if (!first && excess <= most) continue;
    first = false;
    most = excess;
    judgement.where = place.where;
    judgement.value = place.value;
  }
  // Nothing of the kind on either side is 0 on both.
  if (first) most = Excess(condition, {});
  judgement.met = condition.or_equal ? most >= 0 : most > 0;
  const bool bytes = InBytes(condition.figure);
  const auto show = [&](std::uint64_t value) { return bytes ? BytesBoth(value) : Grouped(value); };
  judgement.text =
      condition.text + ": " + (judgement.where.empty() ? "" : judgement.where + " ") + "from " +
      show(judgement.value.before) + " to " + show(judgement.value.after) +
      (judgement.value.changed() ? ", " + (bytes ? SignedBytes(judgement.value) : SignedCount(judgement.value)) +
                                       (judgement.value.before == 0 ? "" : " (" + SignedPercent(judgement.value) + ")")
                                 : ", no change");
  return judgement;
}

}  // namespace

bool InBytes(Figure figure) { return figure != Figure::kAllocations && figure != Figure::kLeaks; }

std::string_view FigureName(Figure figure) { return kFigures.at(static_cast<std::size_t>(figure)); }

std::optional<std::vector<FailCondition>> ParseFailOn(std::string_view text, std::string* problem) {
  std::vector<FailCondition> conditions;
  for (;;) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = Trimmed(text.substr(0, comma));
    std::optional<FailCondition> condition = ParseOne(part);
    if (!condition) {
      *problem = "'" + std::string(part.substr(0, 60)) + "' is no condition: " + std::string(kFailOnGrammar);
      return std::nullopt;
    }
    conditions.push_back(*std::move(condition));
    if (comma == text.size()) return conditions;
    text.remove_prefix(comma + 1);
  }
}

std::vector<Judgement> JudgeConditions(const Diff& diff, const std::vector<FailCondition>& conditions) {
  const Figures figures(diff);
  std::vector<Judgement> judgements;
  judgements.reserve(conditions.size());
  for (const FailCondition& condition : conditions) judgements.push_back(Judge(condition, figures));
  return judgements;
}

bool ParseThreshold(std::string_view text, Threshold* threshold, std::string* problem) {
  Threshold parsed = *threshold;
  for (;;) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view whole = Trimmed(text.substr(0, comma));
    std::string_view part = whole;
    const std::optional<double> number = TakeNumber(part);
    part = Trimmed(part);
    const double unit = UnitOf(part);
    if (number && part == "%" && *number <= 100) {
      parsed.share = *number / 100;
    } else if (number && *number == 0 && part.empty()) {
      parsed = {0, 0, 0};
    } else if (number && unit != 0 && !part.empty() && *number * unit < 9e15) {
      parsed.bytes = static_cast<std::uint64_t>(*number * unit);
    } else {
      *problem = "use a size (64KiB), a percentage up to 100% or both with a comma between, or 0, not '" +
                 std::string(whole.substr(0, 60)) + "'";
      return false;
    }
    if (comma == text.size()) break;
    text.remove_prefix(comma + 1);
  }
  *threshold = parsed;
  return true;
}

}  // namespace cuheap::analysis
