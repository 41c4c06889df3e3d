#include "analysis/reports/allocator_settings_words.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "analysis/reports/text_format.h"

namespace cuheap::analysis {
namespace {

using Json = nlohmann::ordered_json;

std::string Human(std::uint64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

std::string_view Word(SettingsCheck check) {
  switch (check) {
    case SettingsCheck::kReproduced:
      return "reproduced";
    case SettingsCheck::kNotReproduced:
      return "not_reproduced";
    case SettingsCheck::kLittleIdle:
      return "little_idle";
    case SettingsCheck::kExpandable:
      return "expandable";
    case SettingsCheck::kIncomplete:
      break;
  }
  return "incomplete";
}

std::string_view Terms(const SettingOption& option) {
  return option.set.starts_with("expandable")
             ? "The cache grows in place, by pages, in place of segments of fixed sizes. Costs a little time where it "
               "grows; memory can't be shared with other processes by CUDA's older handles."
             : "Larger blocks are kept whole, and serve requests of about their size only.";
}

std::string Fitting(const AllocatorSettings& settings, const SettingOption& option) {
  if (option.fitting == 0) return "";
  if (settings.refused == 1) return "The request that was refused would have fitted. ";
  return Grouped(option.fitting) + " of the " + Plural(settings.refused, "request") +
         " that were refused would have fitted. ";
}

// How well the model held what the run held.
std::string Within(const AllocatorSettings& settings) {
  const double held = static_cast<double>(settings.held_peak), replayed = static_cast<double>(settings.replayed_peak);
  if (replayed == held) return "to the byte";
  return "within " + Percent(std::max(replayed - held, held - replayed) / held);
}

}  // namespace

std::string HowToSet(const AllocatorSettings& settings, const SettingOption& option) {
  return "PYTORCH_CUDA_ALLOC_CONF=" + (settings.recorded.empty() ? "" : settings.recorded + ",") + option.set;
}

std::string AdviceOnPieces(const Report& report, std::uint32_t device) {
  for (const AllocatorSettings& settings : report.allocator_settings) {
    if (settings.device != device || settings.check != SettingsCheck::kReproduced || settings.refused == 0) continue;
    for (const SettingOption& option : settings.options) {
      if (option.fitting == 0) continue;
      const std::string which = settings.refused == 1 ? "it"
                                                      : Grouped(option.fitting) + " of the " +
                                                            Plural(settings.refused, "request") + " that were refused";
      return HowToSet(settings, option) + ": by a replay " + which + " would have fitted";
    }
    return "no setting of PyTorch's allocator that was replayed would have made it fit: smaller requests, or free what "
           "lies "
           "between the pieces";
  }
  return "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets the cache grow in place";
}

void RenderAllocatorSettings(const Report& report, TextCanvas& canvas) {
  for (const AllocatorSettings& settings : report.allocator_settings) {
    const std::string held = "PyTorch's cache on device " + std::to_string(settings.device) + " held " +
                             Human(settings.held_peak) + " at most, for " + Human(settings.tensor_peak) + " of tensors";
    const std::uint64_t idle = settings.held_peak - std::min(settings.held_peak, settings.tensor_peak);
    if (settings.check == SettingsCheck::kNotReproduced && 5 * idle >= settings.held_peak) {
      canvas.Section("ALLOCATOR SETTINGS", held);
      canvas.Paragraph(
          "What other settings would hold can't be told: with those of this run the model of PyTorch's allocator does "
          "not hold what it held (several streams, record_stream, pools of graphs).");
    }
    if (settings.options.empty()) continue;
    canvas.Section("ALLOCATOR SETTINGS", held);
    canvas.Dim("      saves   would hold   (each alone)");
    for (const SettingOption& option : settings.options) {
      canvas.Line(PadLeft(Human(option.saved), 11) + "  " + PadLeft(Human(option.peak), 11) + "   " +
                  HowToSet(settings, option));
      canvas.Detail("-> " + Fitting(settings, option) + std::string(Terms(option)));
    }
    canvas.Paragraph(
        "By a replay of all requests in a model of PyTorch's allocator. With the settings of this run it holds what "
        "the "
        "run held at most, " +
        Within(settings) + ".");
  }
}

Json AllocatorSettingsJson(const AllocatorSettings& settings) {
  Json json = {{"device", settings.device},
               {"recorded", settings.recorded},
               {"check", Word(settings.check)},
               {"held_peak_bytes", settings.held_peak},
               {"tensor_peak_bytes", settings.tensor_peak}};
  if (settings.replayed_peak != 0) json["replayed_peak_bytes"] = settings.replayed_peak;
  json["refused"] = settings.refused;
  json["options"] = Json::array();
  for (const SettingOption& option : settings.options)
    json["options"].push_back({{"set", option.set},
                               {"how", HowToSet(settings, option)},
                               {"peak_bytes", option.peak},
                               {"saved_bytes", option.saved},
                               {"refused_that_fit", option.fitting}});
  return json;
}

}  // namespace cuheap::analysis
