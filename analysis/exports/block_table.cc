#include "analysis/exports/block_table.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "analysis/exports/json_text.h"
#include "analysis/printable.h"
#include "analysis/reports/lines.h"
#include "analysis/snapshot_names.h"

namespace cuheap::analysis {
namespace {

std::string_view MemoryOf(const Block& block) {
  if (block.is_tensor()) return "tensor";
  if (Blocks::OnDevice(block.kind)) return "device";
  return Blocks::OnHost(block.kind) ? "host" : "other";
}

std::string_view FreedBy(const Block& block) {
  if (block.live || block.freed_at == kNoPosition) return "";
  if (block.freed_with_context) return "context";
  return block.freed_at_shutdown ? "shutdown" : "program";
}

// One call for every column of a row, in order; a format's class says how the values look.
template <typename Row>
void WriteColumns(const Snapshot& snapshot, const LineTable& lines, const Block& block, Row& row) {
  const CodeLine& line = lines.line(lines.OfStack(block.stack));
  const auto time = [](std::int64_t ns, std::int64_t unknown) {
    return ns == unknown ? std::nullopt : std::optional<std::int64_t>(ns);
  };
  row.Number("id", block.id);
  if (block.device == kUnknownDevice || Blocks::OnHost(block.kind))
    row.Nothing("device");
  else
    row.Number("device", block.device);
  row.Text("memory", MemoryOf(block));
  row.Text("kind", ToString(block.kind));
  row.Text("allocator", ToString(block.allocator));
  row.Bool("framework_cache", block.in_framework_cache());
  row.Number("address", block.address);
  row.Number("bytes", block.bytes);
  row.Number("reserved_bytes", block.reserved_bytes);
  row.Number("stream", block.stream);
  row.Time("allocated_ns", time(block.allocated_ns, kBeforeWindow));
  row.Time("freed_ns", time(block.freed_ns, kNotFreed));
  row.Bool("held_at_end", block.live);
  row.Text("freed_by", FreedBy(block));
  if (block.thread == 0 || block.thread > snapshot.threads.size())
    row.Nothing("thread");
  else
    row.Number("thread", snapshot.threads[block.thread - 1].tid);
  row.Text("function", line.function);
  row.Text("file", line.file);
  if (line.line == 0)
    row.Nothing("line");
  else
    row.Number("line", line.line);
  row.Text("module", line.module);
  row.Number("stack", block.stack);
}

std::string Digits(auto number) {
  std::array<char, 24> digits;
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}

class CsvHeader {
 public:
  void Number(std::string_view name, std::uint64_t) { Nothing(name); }
  void Bool(std::string_view name, bool) { Nothing(name); }
  void Text(std::string_view name, std::string_view) { Nothing(name); }
  void Time(std::string_view name, std::optional<std::int64_t>) { Nothing(name); }
  void Nothing(std::string_view name) { text_.append(text_.empty() ? "" : ",").append(name); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class CsvRow {
 public:
  void Number(std::string_view, std::uint64_t value) { Field(Digits(value)); }
  void Bool(std::string_view, bool value) { Field(value ? "true" : "false"); }
  void Time(std::string_view, std::optional<std::int64_t> value) { Field(value ? Digits(*value) : ""); }
  void Nothing(std::string_view) { Field(""); }
  void Text(std::string_view, std::string_view value) {
    std::string text = ValidUtf8(value);
    // Readers in C stop at a null character.
    for (std::size_t at = 0; (at = text.find('\0', at)) != std::string::npos;) text.replace(at, 1, "\xEF\xBF\xBD");
    if (text.find_first_of(",\"\r\n") == std::string::npos) {
      Field(text);
      return;
    }
    std::string quoted = "\"";
    for (const char character : text) quoted.append(character == '"' ? 2 : 1, character);
    Field(quoted + "\"");
  }
  const std::string& text() const { return text_; }

 private:
  void Field(std::string_view field) {
    if (!first_) text_ += ',';
    first_ = false;
    text_.append(field);
  }
  std::string text_;
  bool first_ = true;
};

class JsonRow {
 public:
  void Number(std::string_view name, std::uint64_t value) { Member(name, Digits(value)); }
  void Bool(std::string_view name, bool value) { Member(name, value ? "true" : "false"); }
  void Time(std::string_view name, std::optional<std::int64_t> value) { Member(name, value ? Digits(*value) : "null"); }
  void Nothing(std::string_view name) { Member(name, "null"); }
  void Text(std::string_view name, std::string_view value) { Member(name, value.empty() ? "null" : JsonString(value)); }
  std::string text() const { return text_ + "}"; }

 private:
  void Member(std::string_view name, std::string_view value) {
    text_.append(text_.empty() ? "{\"" : ",\"").append(name).append("\":").append(value);
  }
  std::string text_;
};

template <typename Row>
void WriteRows(const Snapshot& snapshot, const Blocks& blocks, TextSink& sink) {
  const LineTable lines(snapshot, {});
  for (const Block& block : blocks.program) {
    Row row;
    WriteColumns(snapshot, lines, block, row);
    sink.Write(row.text() + "\n");
  }
}

}  // namespace

absl::Status CsvTable::Write(const Snapshot& snapshot, const Blocks& blocks, const ExportRequest&, TextSink& sink,
                             std::vector<std::string>&) const {
  CsvHeader header;
  WriteColumns(snapshot, LineTable(Snapshot{}, {}), Block{}, header);
  sink.Write(header.text() + "\n");
  WriteRows<CsvRow>(snapshot, blocks, sink);
  return absl::OkStatus();
}

absl::Status NdjsonTable::Write(const Snapshot& snapshot, const Blocks& blocks, const ExportRequest&, TextSink& sink,
                                std::vector<std::string>&) const {
  WriteRows<JsonRow>(snapshot, blocks, sink);
  return absl::OkStatus();
}

}  // namespace cuheap::analysis
