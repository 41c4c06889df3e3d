#include "analysis/reports/fragmentation_text.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "analysis/reports/allocator_settings_words.h"
#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

std::string Human(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

std::string Share(std::uint64_t part, std::uint64_t whole) {
  return Percent(whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole));
}

bool PyTorchs(const Fragmentation& fragmentation) { return fragmentation.owner == MapOwner::kPyTorch; }

std::string Owner(const Fragmentation& fragmentation) {
  const std::string device =
      fragmentation.device == kUnknownDevice ? "an unknown device" : "device " + std::to_string(fragmentation.device);
  return (PyTorchs(fragmentation) ? "PyTorch's cache on " : "pool on ") + device;
}

std::string_view Heading(FragmentationMoment moment) {
  switch (moment) {
    case FragmentationMoment::kRefusal:
      return "refused";
    case FragmentationMoment::kGrowth:
      return "as it grew";
    case FragmentationMoment::kLast:
      return "last tensor";
    case FragmentationMoment::kEnd:
      break;
  }
  return "at the end";
}

std::string_view CauseText(IdleCause cause, bool pytorch) {
  switch (cause) {
    case IdleCause::kWholeSegments:
      return pytorch ? "whole segments, without a tensor in them" : "whole segments, without a block in them";
    case IdleCause::kBesideBlocks:
      return pytorch ? "beside tensors that stay, in pieces" : "beside blocks that stay, in pieces";
    case IdleCause::kOtherPart:
      return pytorch ? "kept for other requests: small or large ones, another stream or pool"
                     : "kept for other requests: slabs of one size class";
    case IdleCause::kRounding:
      break;
  }
  return "rounding: more than was asked for";
}

// From what can be had back at once to what must be lived with.
constexpr std::array kOrder = {IdleCause::kWholeSegments, IdleCause::kBesideBlocks, IdleCause::kOtherPart,
                               IdleCause::kRounding};

// Where the allocator's settings were replayed that is better than what the pieces suggest. Null: they were not.
const AllocatorSettings* Replayed(const Report& report, std::uint32_t device) {
  for (const AllocatorSettings& settings : report.allocator_settings) {
    if (settings.device == device && settings.check == SettingsCheck::kReproduced) return &settings;
  }
  return nullptr;
}

std::string AdviceOnStay(const Report& report, const CauseShare& beside) {
  if (beside.lines.empty() || beside.lines.front().line == 0) return "";
  return "What stays longest there is made at " + Describe(report.lines.line(beside.lines.front().line)) +
         ": make it before what is freed every step, or free it with it.";
}

std::string AdviceBesideTensors(const Report& report, std::uint32_t device, const FragmentationState& state) {
  const CauseShare& beside = state.of(IdleCause::kBesideBlocks);
  if (const AllocatorSettings* settings = Replayed(report, device)) {
    if (settings->options.empty()) return AdviceOnStay(report, beside);
    const SettingOption& best = settings->options.front();
    return HowToSet(*settings, best) + ": at most " + Human(best.peak) + " would have been held, not " +
           Human(settings->held_peak) + ". " + AdviceOnStay(report, beside);
  }
  const CutUp& cut = state.cut_up;
  if (2 * cut.bytes > beside.bytes) {
    const std::uint64_t mib = std::max<std::uint64_t>(32, std::bit_ceil((cut.largest_piece >> 20) + 1));
    return "A tensor of " + Human(cut.block) + " (" + Describe(report.lines.line(cut.line)) + ") had " +
           (cut.segments == 1 ? "the segment" : "such segments") + " to itself, which smaller ones cut up since: " +
           "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:" + std::to_string(mib) + " keeps them from blocks over " +
           std::to_string(mib) + " MiB, or make the large one first and keep it.";
  }
  std::string advice;
  if (4 * state.in_pages > beside.bytes) {
    advice = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True could use or give back " + Human(state.in_pages) +
             " of it (whole pages of 20 MiB). ";
  }
  return advice + AdviceOnStay(report, beside);
}

// What is idle only because nobody has handed it back: no sign of trouble, and not to be called fragmentation.
bool IsIdleCache(const FragmentationState& state) {
  const std::uint64_t whole = state.of(IdleCause::kWholeSegments).bytes;
  return whole != 0 && 3 * whole >= 2 * state.unused();
}

}  // namespace

std::string FragmentationVerdict(const Fragmentation& fragmentation) {
  const FragmentationState& state = fragmentation.main();
  const std::uint64_t whole = state.of(IdleCause::kWholeSegments).bytes;
  const std::uint64_t beside = state.of(IdleCause::kBesideBlocks).bytes;
  const bool pytorch = PyTorchs(fragmentation);
  if (IsIdleCache(state)) {
    const bool fell = pytorch && fragmentation.tensor_peak > 2 * state.requested;
    return (fell ? "Idle cache after a peak of " + Human(fragmentation.tensor_peak) + " in tensors, not fragmentation: "
                 : std::string("Idle memory that is cached, not fragmentation: ")) +
           BytesBoth(whole) + " can be handed back.";
  }
  switch (state.worst()) {
    case IdleCause::kBesideBlocks:
      return "Fragmentation: " + Human(beside) + " lie idle beside " + Human(state.requested) +
             (pytorch ? " of tensors" : " of blocks") + ", the largest piece " + Human(state.largest_idle) + "." +
             (whole == 0 ? " Nothing can be handed back." : " " + Human(whole) + " can be handed back.");
    case IdleCause::kOtherPart:
      return "Most of it is kept for requests of another kind.";
    case IdleCause::kRounding:
      return "Most of it is rounding.";
    case IdleCause::kWholeSegments:
      break;
  }
  return "In part idle cache (" + Human(whole) + " can be handed back), in part fragmentation.";
}

std::string AdviceFor(const Report& report, const Fragmentation& fragmentation) {
  const FragmentationState& state = fragmentation.main();
  const CauseShare& share = state.of(state.worst());
  // Without its line a remedy helps nobody, but for the one that names none.
  const bool known = !share.lines.empty() && share.lines.front().line != 0;
  const std::string line = known ? Describe(report.lines.line(share.lines.front().line)) : "";
  switch (state.worst()) {
    case IdleCause::kWholeSegments:
      if (!PyTorchs(fragmentation)) return "";
      return "Only if another process or library lacks it: torch.cuda.empty_cache()" +
             (line.empty() ? "" : " after what was last there (" + line + ")") +
             " hands it over. PyTorch itself uses it again, and empties its cache before it raises an error.";
    case IdleCause::kBesideBlocks:
      if (PyTorchs(fragmentation)) return AdviceBesideTensors(report, fragmentation.device, state);
      if (!known) return "";
      return "What stays longest there is made at " + line +
             ": make it before what is freed every step; ask for the large block before the small ones.";
    case IdleCause::kOtherPart:
      if (!known) return "";
      return PyTorchs(fragmentation)
                 ? "Small tensors (up to 1 MiB) and each stream have segments of their own: use fewer streams, or free "
                   "what was made at " +
                       line + " together."
                 : "Slabs hold blocks of one size class: fewer sizes at " + line + ", or one block for many.";
    case IdleCause::kRounding:
      break;
  }
  return known ? "Ask once for what " + line + " asks for in small blocks." : "";
}

void FragmentationSection(const Report& report, const Fragmentation& fragmentation, TextCanvas& canvas) {
  if (!fragmentation.matters()) return;
  const FragmentationState& state = fragmentation.main();
  const FragmentationState* growth = fragmentation.growth();
  canvas.Section(IsIdleCache(state) ? "IDLE MEMORY" : "FRAGMENTATION",
                 Owner(fragmentation) + ": " + Human(state.unused()) + " of " + Human(state.reserved) +
                     " held not used (" + Share(state.unused(), state.reserved) + ")");
  canvas.Paragraph(
      (state.moment == FragmentationMoment::kRefusal ? Human(state.request) + " were refused. " : std::string()) +
      FragmentationVerdict(fragmentation));
  canvas.Line();
  canvas.Dim(PadLeft(std::string(Heading(state.moment)), 13) +
             (growth == nullptr ? "" : PadLeft(std::string(Heading(growth->moment)), 13)) + "  cause");
  for (const IdleCause cause : kOrder) {
    if (state.of(cause).bytes == 0 && (growth == nullptr || growth->of(cause).bytes == 0)) continue;
    canvas.Line(PadLeft(Human(state.of(cause).bytes), 13) +
                (growth == nullptr ? "" : PadLeft(Human(growth->of(cause).bytes), 13)) + "  " +
                std::string(CauseText(cause, PyTorchs(fragmentation))));
    const std::vector<CauseLine>& lines = state.of(cause).lines;
    if (lines.empty() || lines.front().line == 0) continue;
    const std::string_view who = cause == IdleCause::kWholeSegments ? "last used by "
                                 : cause == IdleCause::kRounding    ? "of "
                                                                    : "kept by ";
    canvas.Dim(std::string(growth == nullptr ? 17 : 30, ' ') + std::string(who) +
               ShowLine(report, report.lines.line(lines.front().line), canvas.width() - 58, canvas.utf8()) + ": " +
               Human(lines.front().bytes) +
               (lines.size() > 1 ? ", and " + Plural(lines.size() - 1, "other line") : ""));
  }
  if (growth != nullptr) {
    canvas.Paragraph("It grew to its most at " + HumanTime(growth->time_ns) + " for a request of " +
                     Human(growth->request) + ": then " + Human(growth->unused()) + " of " + Human(growth->reserved) +
                     " did not serve it.");
  }
  if (const std::string advice = AdviceFor(report, fragmentation); !advice.empty()) canvas.Detail("-> " + advice);
}

}  // namespace cuheap::analysis
