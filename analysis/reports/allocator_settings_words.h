// What other settings of PyTorch's allocator would have held, for people and as JSON.
#ifndef CUHEAP_ANALYSIS_REPORTS_ALLOCATOR_SETTINGS_WORDS_H_
#define CUHEAP_ANALYSIS_REPORTS_ALLOCATOR_SETTINGS_WORDS_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "analysis/reports/allocator_settings.h"
#include "analysis/reports/report.h"
#include "analysis/reports/text_canvas.h"

namespace cuheap::analysis {

// "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64,expandable_segments:True": the option beside what was set already.
std::string HowToSet(const AllocatorSettings& settings, const SettingOption& option);

// For a request that was refused although as much lay idle in pieces.
std::string AdviceOnPieces(const Report& report, std::uint32_t device);

// A section for each device where a setting would help, or where it can't be told and a fifth lay idle; nothing else.
void RenderAllocatorSettings(const Report& report, TextCanvas& canvas);
// One member of the array "allocator_settings"; docs/reports.md explains it.
nlohmann::ordered_json AllocatorSettingsJson(const AllocatorSettings& settings);

}  // namespace cuheap::analysis

#endif  // CUHEAP_ANALYSIS_REPORTS_ALLOCATOR_SETTINGS_WORDS_H_
