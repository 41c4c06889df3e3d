// Fuzzes the HTML page: whatever snapshot can be loaded has one, its data is JSON, and nothing in it is markup.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "analysis/html/page_data.h"
#include "analysis/reports/report.h"
#include "analysis/snapshot_loader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto snapshot = cuheap::analysis::LoadSnapshotFromMemory(text, "fuzzed");
  if (!snapshot.ok()) return 0;
  const std::string page = cuheap::analysis::PageData(cuheap::analysis::MakeReport(*snapshot), nullptr);
  if (page.find_first_of("<>&") != std::string::npos || !nlohmann::json::accept(page)) {
    std::fprintf(stderr, "not fit for a page: %s\n", page.substr(0, 2000).c_str());
    std::abort();
  }
  return 0;
}
