#include "analysis/html/line_rows.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace cuheap::analysis {
namespace {

std::uint64_t PeakPosition(const MemoryHistory& history) {
  for (const NamedInstant& named : history.named) {
    if (named.name == "peak") return history.position[named.instant];
  }
  return 0;
}

std::vector<LineRow> RowsOf(const Report& report, const Blocks& blocks, const MemoryHistory& history,
                            std::size_t place) {
  const std::uint64_t peak = PeakPosition(history);
  absl::flat_hash_map<std::uint32_t, std::size_t> known;
  std::vector<LineRow> rows;
  const auto row_of = [&](std::uint32_t line) -> LineRow& {
    const auto [entry, fresh] = known.try_emplace(line, rows.size());
    if (fresh) {
      rows.emplace_back();
      rows.back().place = place;
      rows.back().line = line;
    }
    return rows[entry->second];
  };
  for (const Block& block : blocks.program) {
    const bool counts = history.host
                            ? Blocks::OnHost(block.kind)
                            : block.device == history.device && (Blocks::OnDevice(block.kind) || block.is_tensor());
    if (!counts || (history.tensors && block.in_framework_cache())) continue;
    LineRow& row = row_of(report.lines.OfStack(block.stack));
    ++row.allocations;
    row.allocated_bytes += block.bytes;
    row.largest = std::max(row.largest, block.bytes);
    if (!block.never_freed()) ++row.frees;
    if (HeldAfter(block, peak)) {
      ++row.peak_blocks;
      row.peak_bytes += block.bytes;
    }
    if (block.live) {
      ++row.end_blocks;
      row.end_bytes += block.bytes;
    }
  }
  for (const LeakFinding& finding : report.findings) {
    if (finding.leak_class != LeakClass::kLeak || finding.scope.host != history.host ||
        (!history.host && finding.scope.device != history.device))
      continue;
    for (const StackShare& share : finding.stacks)
      row_of(report.lines.OfStack(share.stack)).leaked_bytes += share.bytes;
  }
  std::sort(rows.begin(), rows.end(), [](const LineRow& a, const LineRow& b) {
    return std::tie(b.peak_bytes, b.allocated_bytes, a.line) < std::tie(a.peak_bytes, a.allocated_bytes, b.line);
  });
  return rows;
}

}  // namespace

LineRows CountLines(const Report& report, const Blocks& blocks, const std::vector<MemoryHistory>& histories,
                    std::size_t most) {
  LineRows all;
  for (std::size_t place = 0; place < histories.size(); ++place) {
    std::vector<LineRow> rows = RowsOf(report, blocks, histories[place], place);
    if (rows.size() > most) {
      all.left_out += rows.size() - most;
      rows.resize(most);
    }
    all.rows.insert(all.rows.end(), rows.begin(), rows.end());
  }
  return all;
}

}  // namespace cuheap::analysis
