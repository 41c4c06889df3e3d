#include "tools/cuheap/export_arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <optional>

#include "analysis/exports/exporter.h"

namespace cuheap::tools {
namespace {

constexpr const char* kHelp = R"(
Formats of stacks, at the moment that --at names:
  folded          flamegraph.pl, inferno, speedscope
  speedscope      speedscope.app
  pprof           pprof, Grafana Pyroscope, Parca; gzipped profile.proto
Formats of the whole time:
  chrome          ui.perfetto.dev, chrome://tracing
  torch-snapshot  pytorch.org/memory_viz and whatever reads PyTorch's memory snapshots
  csv, ndjson     a row for every block: spreadsheets, DuckDB, pandas, jq
  parquet         the same for many files at once; needs a Python with pyarrow

Examples:
  cuheap export first.json --format speedscope          writes first.speedscope.json here
  cuheap export first.json --format folded -o - | flamegraph.pl --countname bytes > flames.svg
  cuheap export first.json --format pprof --at end -o end.pb.gz
  cuheap export snapshot.pickle --format speedscope --at 12.5s
  cuheap export first.json --format torch-snapshot -o first.pickle
  cuheap export first.json --format csv -o first.csv.zst    compressed
  cuheap export first.json --format parquet --python ~/venv/bin/python

A name ending in .zst is compressed with zstd. Files have mode 0600. exports.md has the columns and figures.)";

std::string FormatNames() {
  std::string names;
  for (const analysis::ExportFormat& format : analysis::ExportFormats())
    names.append(names.empty() ? "" : ", ").append(format.name);
  return names;
}

constexpr std::size_t kMostBlocks = 100'000'000;

}  // namespace

void ExportArguments::AddTo(CLI::App& command) {
  command.footer(kHelp);
  command.add_option("snapshot", options_.path, "A snapshot made by cuheap run or by PyTorch; - is standard input")
      ->required()
      ->type_name("SNAPSHOT|-");
  command.add_option("-f,--format", options_.format, FormatNames())->type_name("FORMAT");
  command
      .add_option("-o,--output", options_.output,
                  "The file (default: the snapshot's name with the format's extension, here); - is standard output")
      ->type_name("FILE");
  command
      .add_option("--at", at_,
                  "Which moment: peak (of the tensors, where PyTorch's are known, else of the memory of each device), "
                  "device-peak, end, leaked, or a time since the start such as 1.5s or 250ms. Default: peak")
      ->type_name("WHEN");
  command.add_option("--blocks", blocks_, "chrome: how many blocks are drawn, the largest (default: 20000)")
      ->type_name("N");
  command
      .add_option("--python", options_.python,
                  "parquet: a Python with pyarrow (default: the environment's CUHEAP_PYTHON, else python3)")
      ->type_name("PROGRAM");
  command.add_flag("-q,--quiet", options_.quiet, "Say nothing but errors");
}

std::string ExportArguments::CheckFormat() const {
  if (options_.format.empty()) return "no format given: --format takes one of " + FormatNames();
  if (analysis::FindExportFormat(options_.format) == nullptr)
    return "--format: use one of " + FormatNames() + ", not '" + options_.format + "'";
  return {};
}

std::string ExportArguments::Check() {
  if (std::string problem = CheckFormat(); !problem.empty()) return problem;
  const analysis::ExportFormat& format = *analysis::FindExportFormat(options_.format);
  if (!at_.empty()) {
    const std::optional<analysis::Moment> at = analysis::ParseMoment(at_);
    if (!at) return "--at: use peak, device-peak, end, leaked or a time such as 1.5s or 250ms, not '" + at_ + "'";
    if (!format.of_moment) {
      return "--at is for folded, speedscope and pprof: " + options_.format + " tells the whole time, so leave it out";
    }
    options_.at = *at;
  }
  if (!options_.python.empty() && !format.from_csv)
    return "--python is for parquet: " + options_.format + " needs none, so leave it out";
  if (!blocks_.empty()) {
    const bool digits =
        blocks_.size() < 10 &&
        std::all_of(blocks_.begin(), blocks_.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    if (!digits || std::stoul(blocks_) == 0 || std::stoul(blocks_) > kMostBlocks)
      return "--blocks: use a number from 1 to 100000000, not '" + blocks_ + "'";
    if (!format.draws_blocks) return "--blocks is for chrome: " + options_.format + " has every block, so leave it out";
    options_.drawn_blocks = std::stoul(blocks_);
  }
  return {};
}

}  // namespace cuheap::tools
