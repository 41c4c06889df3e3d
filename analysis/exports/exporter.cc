#include "analysis/exports/exporter.h"

#include <array>

#include "analysis/exports/block_table.h"
#include "analysis/exports/chrome_trace.h"
#include "analysis/exports/folded.h"
#include "analysis/exports/pprof.h"
#include "analysis/exports/speedscope.h"
#include "analysis/exports/torch_pickle.h"

namespace cuheap::analysis {
namespace {

template <typename T>
std::unique_ptr<Exporter> Make() {
  return std::make_unique<T>();
}

constexpr std::array<ExportFormat, 8> kFormats{{
    {"folded", ".folded", false, true, false, "flamegraph.pl --countname bytes FILE > flames.svg", &Make<FoldedStacks>},
    {"speedscope", ".speedscope.json", false, true, false, "open it at speedscope.app, or: speedscope FILE",
     &Make<SpeedscopeProfile>},
    {"pprof", ".pb.gz", true, true, false, "pprof -http=: FILE", &Make<PprofProfile>},
    {"chrome", ".trace.json", false, false, true, "open it at ui.perfetto.dev or chrome://tracing", &Make<ChromeTrace>},
    {"torch-snapshot", ".torch.pickle", true, false, false,
     "drop it on pytorch.org/memory_viz, or: python -m torch.cuda._memory_viz segments FILE", &Make<TorchPickle>},
    {"csv", ".csv", false, false, false, "duckdb -c \"FROM 'FILE'\", or any spreadsheet", &Make<CsvTable>},
    {"ndjson", ".ndjson", false, false, false, "duckdb -c \"FROM read_json('FILE')\", or: jq . FILE",
     &Make<NdjsonTable>},
    {"parquet", ".parquet", true, false, false, "duckdb -c \"FROM 'FILE'\"", &Make<CsvTable>, true},
}};

}  // namespace

std::span<const ExportFormat> ExportFormats() { return kFormats; }

const ExportFormat* FindExportFormat(std::string_view name) {
  for (const ExportFormat& format : kFormats) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

}  // namespace cuheap::analysis
