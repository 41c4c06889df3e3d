#include "analysis/reports/ran_out_text.h"

#include <array>
#include <limits>
#include <string_view>

#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

constexpr std::array<std::string_view, kTensorRoles> kRoleNames = {"weights", "gradients", "optimizer state",
                                                                   "activations", "other tensors"};

std::string Human(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

std::string LineName(const Report& report, std::uint32_t line) {
  const std::string text = Describe(report.lines.line(line));
  return text.substr(text.rfind('/') == std::string::npos ? 0 : text.rfind('/') + 1);
}

// What lasts over all steps, as against what a smaller batch makes smaller.
std::uint64_t Lasting(const OomContext& context) {
  return context.of(TensorRole::kWeights) + context.of(TensorRole::kGradients) +
         context.of(TensorRole::kOptimizerState);
}

std::string RolesText(const OomContext& context) {
  std::string text;
  for (std::size_t role = 0; role < kTensorRoles; ++role) {
    if (100 * context.bytes[role] < context.all() || context.bytes[role] == 0) continue;
    text += (text.empty() ? "" : ", ") + std::string(kRoleNames[role]) + " " + Human(context.bytes[role]);
  }
  return text;
}

}  // namespace

std::string RolesBeside(const OomContext& context) {
  return context.cause == OomCause::kOptimizer || context.cause == OomCause::kFirstStep ? "" : RolesText(context);
}

std::string CauseText(const Report& report, const OomContext& context, std::uint64_t request) {
  const std::string more = ", when " + Human(request) + " more were asked for";
  switch (context.cause) {
    case OomCause::kLeaks:
      return "lines that leak hold " + Human(context.leaked_bytes) + " of the " + Human(context.all()) + " in tensors" +
             more;
    case OomCause::kWeights:
      return "the weights do not fit: " + Human(context.of(TensorRole::kWeights)) +
             " of them were there, and not yet all" + more;
    case OomCause::kOptimizer: {
      std::string text = "the optimizer's step does not fit: " + RolesText(context) + more;
      const std::uint64_t weights = context.of(TensorRole::kWeights);
      if (context.adam && weights != 0) {
        text += "; Adam keeps two numbers for each weight, about " +
                Human(3 * weights + context.of(TensorRole::kGradients)) + " in all";
      }
      return text;
    }
    case OomCause::kFirstStep:
      return std::string(context.step_done ? "a step does not fit, though one before it did: "
                                           : "the first step does not fit: ") +
             RolesText(context) + more +
             (context.line == 0
                  ? ""
                  : "; most of the step's is of " + LineName(report, context.line) + ", " + Human(context.line_bytes));
    case OomCause::kLastStep:
      return "the last, unfinished step needs more than " + Human(context.step_bytes + request) +
             (context.finished_bytes == 0 ? "" : " (finished ones at most " + Human(context.finished_bytes) + ")") +
             ", of which " + LineName(report, context.line) + " has " + Human(context.line_bytes);
    case OomCause::kNone:
      break;
  }
  return "";
}

std::string CauseAdvice(const Report& report, const OomContext& context) {
  const std::string lasting =
      "a smaller dtype (bfloat16), sharding over several cards (FSDP), or a card with more memory";
  const std::string passing =
      "A smaller batch, activation checkpointing (torch.utils.checkpoint) or mixed precision (torch.autocast) makes it "
      "smaller.";
  switch (context.cause) {
    case OomCause::kLeaks:
      return report.leak_count() == 1 ? "Mend the leak above first." : "Mend the leaks above first.";
    case OomCause::kWeights:
      return "It takes " + lasting + "; a smaller batch does not help.";
    case OomCause::kOptimizer:
      return "It takes an optimizer with less state (8-bit, Adafactor), " + lasting + "; a smaller batch hardly helps.";
    case OomCause::kFirstStep:
      if (2 * Lasting(context) > context.all()) return "It takes " + lasting + "; a smaller batch helps only a little.";
      return (context.step_done ? "Is its input larger than that of the step before? " : "") + passing;
    case OomCause::kLastStep:
      return passing;
    case OomCause::kNone:
      break;
  }
  return "";
}

std::string FirstCauseText(const Report& report) {
  std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();
  std::string text;
  const auto consider = [&](const OomContext& context, std::int64_t time_ns, std::uint64_t request) {
    if (context.cause == OomCause::kNone || time_ns >= first_ns) return;
    first_ns = time_ns;
    text = CauseText(report, context, request);
  };
  for (const FrameworkCache& cache : report.framework_caches) {
    for (const FrameworkRefusal& refusal : cache.refusals) consider(refusal.context, refusal.time_ns, refusal.request);
  }
  for (const Failure& failure : report.failures) {
    if (failure.outcome == FailureOutcome::kTold) consider(failure.context, failure.first_ns, failure.figures.request);
  }
  return text;
}

}  // namespace cuheap::analysis
